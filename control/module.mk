CONTROL_SRC := \
	control/control.c \
	control/control_client.c \
	control/control_socket.c \
	control/runtime_dir.c
