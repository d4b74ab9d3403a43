#!/bin/sh
# As images of other brokers do it: options alone are those of the broker, and a compose file may
# still name RabbitMQ's server.
set -eu
case "${1:--}" in
  -)
    set -- leporid serve
    ;;
  -*)
    set -- leporid serve "$@"
    ;;
  rabbitmq-server)
    shift
    set -- leporid serve "$@"
    ;;
esac
exec "$@"
