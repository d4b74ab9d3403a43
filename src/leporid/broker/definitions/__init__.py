"""All definitions of a broker, or of a virtual host, as one document: RabbitMQ's JSON."""
