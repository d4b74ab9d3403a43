"""RabbitMQ's plugins: their names in its file, and which are here."""

from leporid.server.rabbitmq_plugins import missing, names_of


def test_names_in_a_file_of_enabled_plugins():
    text = "%% mine: rabbitmq_mqtt\n[ rabbitmq_management\n ,rabbitmq_stomp ].\n"
    assert names_of(text) == ["rabbitmq_management", "rabbitmq_stomp"]
    assert list(missing(text)) == ["rabbitmq_stomp"]
    assert not names_of("[].")
