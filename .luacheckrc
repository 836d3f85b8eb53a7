std = "lua51"
read_globals = { "redis", "cjson" }
globals = { "KEYS", "ARGV" }
max_line_length = 120
