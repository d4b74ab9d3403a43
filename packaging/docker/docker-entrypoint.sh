#!/bin/sh
# As images of other brokers do it: options alone are those of the broker, and a compose file may
# still name RabbitMQ's server.
set -eu

# A compose file for RabbitMQ's image in which only the name of the image was changed.
data=/var/lib/rabbitmq
if [ "${LEPORID_DATA_DIR:-}" = /var/lib/leporid ] && mountpoint -q "$data"; then
  # Beside what RabbitMQ has there, which is neither read nor changed.
  export LEPORID_DATA_DIR="$data/leporid"
fi

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
