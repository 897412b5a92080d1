# Runs Exim in the foreground on 127.0.0.1:$PORT. It stores all mail in the Maildir /var/mailboxes/all. If RELAY is set,
# it relays all mail to 127.0.0.1:$RELAY instead.
getent group Debian-exim >/dev/null || groupadd --system Debian-exim
getent passwd Debian-exim >/dev/null ||
    useradd --system --gid Debian-exim --home-dir /var/spool/exim4 --shell /usr/sbin/nologin Debian-exim
mkdir -p /etc/exim4 /var/spool/exim4 /run/exim4
chown Debian-exim: /var/spool/exim4 /run/exim4
cat > /etc/exim4/exim4.conf <<END
primary_hostname = exim.test
daemon_smtp_ports = $PORT
local_interfaces = 127.0.0.1
spool_directory = /var/spool/exim4
log_file_path = /var/spool/exim4/%slog
host_lookup =
rfc1413_query_timeout = 0s
tls_advertise_hosts =
chunking_advertise_hosts = *
smtp_accept_max = 0
smtp_accept_max_per_connection = 0
smtp_accept_queue_per_connection = 0
acl_smtp_rcpt = accept
acl_smtp_data = accept
begin routers
END
if [ -n "${RELAY:-}" ]; then
    cat >> /etc/exim4/exim4.conf <<END
all:
  driver = manualroute
  route_list = * 127.0.0.1
  self = send
  transport = onward
begin transports
onward:
  driver = smtp
  port = $RELAY
  allow_localhost
  hosts_avoid_tls = *
  connection_max_messages = 0
END
else
    cat >> /etc/exim4/exim4.conf <<END
all:
  driver = accept
  transport = keep
begin transports
keep:
  driver = appendfile
  maildir_format
  directory = /var/mailboxes/all
  create_directory
  user = nobody
  group = nogroup
END
fi
printf 'begin retry\n* * F,1h,1s\n' >> /etc/exim4/exim4.conf
chmod 644 /etc/exim4/exim4.conf
exec /usr/sbin/exim4 -bdf -q1m
