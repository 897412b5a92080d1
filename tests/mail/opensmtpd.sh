# Runs OpenSMTPD in the foreground on 127.0.0.1:$PORT. It stores all mail in the Maildir /var/mailboxes/all. If RELAY is
# set, it relays all mail to 127.0.0.1:$RELAY instead. If /shared/key.pem exists, it offers STARTTLS with this key and
# /shared/cert.pem.
getent group opensmtpd >/dev/null || groupadd --system opensmtpd
getent group opensmtpq >/dev/null || groupadd --system opensmtpq
getent passwd opensmtpd >/dev/null ||
    useradd --system --gid opensmtpd --home-dir /run --shell /usr/sbin/nologin opensmtpd
getent passwd opensmtpq >/dev/null ||
    useradd --system --gid opensmtpq --home-dir /run --shell /usr/sbin/nologin opensmtpq
getent passwd keeper >/dev/null ||
    useradd --home-dir /var/mailboxes keeper
mkdir -p /var/spool/smtpd
chmod 711 /var/spool/smtpd
tls=
if [ -e /shared/key.pem ]; then
    cp /shared/key.pem /shared/cert.pem /etc/
    chmod 600 /etc/key.pem
    printf 'pki own key "/etc/key.pem"\npki own cert "/etc/cert.pem"\n' > /etc/smtpd.conf
    tls="tls pki own"
else
    : > /etc/smtpd.conf
fi
action='maildir "/var/mailboxes/all" virtual <keep>'
if [ -n "${RELAY:-}" ]; then
    action="relay host smtp://127.0.0.1:$RELAY"
fi
cat >> /etc/smtpd.conf <<END
listen on 127.0.0.1 port $PORT $tls hostname opensmtpd.test
table keep { "@" = "keeper" }
action "all" $action
match from any for any action "all"
END
exec /usr/sbin/smtpd -d -f /etc/smtpd.conf
