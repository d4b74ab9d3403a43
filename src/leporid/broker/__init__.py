"""The control plane: rules, in pure Python, without a clock, a socket, a file or chance."""
