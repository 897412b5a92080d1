# Runs Postfix in the foreground on 127.0.0.1:$PORT, with the host name $NAME. It stores all mail in the Maildir
# /var/mailboxes/all. If RELAY is set, it relays all mail to 127.0.0.1:$RELAY instead. If /shared/key.pem exists, it
# offers STARTTLS with this key and /shared/cert.pem.
getent group postfix >/dev/null || groupadd --system postfix
getent group postdrop >/dev/null || groupadd --system postdrop
getent passwd postfix >/dev/null ||
    useradd --system --gid postfix --home-dir /var/spool/postfix --shell /usr/sbin/nologin postfix
mkdir -p /var/spool/postfix /var/lib/postfix
chown postfix:postfix /var/lib/postfix
cat > /etc/postfix/main.cf <<END
compatibility_level = 3.6
queue_directory = /var/spool/postfix
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
data_directory = /var/lib/postfix
mail_owner = postfix
setgid_group = postdrop
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = ${NAME:-postfix.test}
mydestination =
mynetworks = 127.0.0.0/8
alias_maps =
maillog_file = /dev/stdout
smtpd_recipient_restrictions = permit_mynetworks, reject
# One client opens many connections in the tests.
smtpd_client_connection_count_limit = 0
END
if [ -n "${RELAY:-}" ]; then
    cat >> /etc/postfix/main.cf <<END
relayhost = [127.0.0.1]:$RELAY
smtp_tls_security_level = may
smtp_tls_loglevel = 1
END
else
    cat >> /etc/postfix/main.cf <<END
virtual_mailbox_domains = static:all
virtual_mailbox_base = /var/mailboxes
virtual_mailbox_maps = static:all/
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
virtual_destination_recipient_limit = 1
virtual_destination_concurrency_limit = 20
END
fi
if [ -e /shared/key.pem ]; then
    cat >> /etc/postfix/main.cf <<END
smtpd_tls_security_level = may
smtpd_tls_key_file = /shared/key.pem
smtpd_tls_cert_file = /shared/cert.pem
smtpd_tls_loglevel = 1
END
fi
# Disable Postfix's chroot, which would lack the resolver's files.
sed -e "s/^smtp      inet/127.0.0.1:$PORT inet/" /usr/share/postfix/master.cf.dist |
    awk '!/^[#[:space:]]/ && NF >= 8 { $5 = "n" } { print }' > /etc/postfix/master.cf
exec postfix start-fg
