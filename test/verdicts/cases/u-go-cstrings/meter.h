int meter_send(const char *line);
