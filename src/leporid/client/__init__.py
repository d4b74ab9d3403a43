"""What runs beside the applications that use a broker, this one or another."""
