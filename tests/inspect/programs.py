#!/usr/bin/env python3
"""Inspects third-party programs under load, and compares each answer with the program's known architecture.

    tests/inspect/programs.py [--landau PATH] [--only NAME,NAME] [--grades 1,2,3]

Prints the name of a program that is not installed, and skips it. Each program listens on a separate loopback port, and
its process group is killed at the end. The exit status is 1 if an answer is wrong; "cannot tell" is not wrong. Evidence
of grade 2 needs root, and so does evidence of grade 3 for programs of other users. Debian packages: nginx-light apache2
lighttpd h2o redis-server memcached haproxy openssh-server vsftpd postfix dovecot-imapd unbound openbsd-inetd mini-httpd
stunnel4 postgresql; from PyPI: gunicorn gevent uvicorn waitress; node, go and java.
"""

import argparse
import asyncio
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HTTP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POSTGRES = b"\x00\x00\x00\x21\x00\x03\x00\x00user\x00postgres\x00database\x00x\x00\x00"
DNS_QUERY = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01"
DNS = len(DNS_QUERY).to_bytes(2, "big") + DNS_QUERY


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Load:
    """Connections that send a request every 100 to 300 ms. After `requests` requests, each closes and reconnects."""

    def __init__(self, count, requests, text, has_banner=False, first=b""):
        self.count, self.requests, self.text, self.has_banner, self.first = count, requests, text, has_banner, first

    def run(self, port, seconds):
        asyncio.run(self.all(port, time.monotonic() + seconds))

    async def all(self, port, end):
        await asyncio.gather(*[self.one(port, end) for _ in range(self.count)])

    async def reply(self, port):
        writer = None
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 3)
            writer.write(b"" if self.has_banner else self.first or self.text)
            return bool(await asyncio.wait_for(reader.read(65536), 3))
        except (OSError, asyncio.TimeoutError):
            return False
        finally:
            if writer:
                writer.close()

    async def one(self, port, end):
        while time.monotonic() < end:
            writer = None
            try:
                reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 3)
                if self.has_banner:
                    await asyncio.wait_for(reader.read(4096), 3)
                if self.first:
                    writer.write(self.first)
                    await asyncio.wait_for(reader.read(4096), 3)
                for _ in range(self.requests):
                    await asyncio.sleep(0.1 + random.random() * 0.2)
                    writer.write(self.text)
                    if not await asyncio.wait_for(reader.read(65536), 3) or time.monotonic() > end:
                        break
            except (OSError, asyncio.TimeoutError):
                await asyncio.sleep(0.05)
            finally:
                if writer:
                    writer.close()


WEB = Load(100, 8, HTTP)
SHORT = Load(60, 1, HTTP)


class Room:
    """A folder for a program, with its port and its files."""

    def __init__(self, folder):
        self.folder, self.port, self.user = folder, free_port(), "nobody"
        self.write("site/index.html", "hello\n")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path


APP = """
import time
def app(environ, start):
    time.sleep(0.002)
    start('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', '6')])
    return [b'hello\\n']
async def asgi(scope, receive, send):
    if scope['type'] == 'http':
        await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'6')]})
        await send({'type': 'http.response.body', 'body': b'hello\\n'})
"""

SOCKETSERVER = """
import http.server, os, socketserver, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *words): pass
class Forking(socketserver.ForkingMixIn, http.server.HTTPServer): max_children = 500; request_queue_size = 200
class Threading(http.server.ThreadingHTTPServer): request_queue_size = 200
class Single(http.server.HTTPServer): request_queue_size = 200
os.chdir('site')
kind = {'fork': Forking, 'thread': Threading, 'single': Single}[sys.argv[1]]
kind(('127.0.0.1', int(sys.argv[2])), Handler).serve_forever()
"""

ASYNCIO = """
import asyncio, sys
async def serve(reader, writer):
    try:
        while await reader.readuntil(b'\\r\\n\\r\\n'):
            writer.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nhello\\n')
            await writer.drain()
    except Exception: pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]), backlog=200)
    await server.serve_forever()
asyncio.run(main())
"""

POOL = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor
def serve(connection):
    with connection:
        while connection.recv(4096):
            connection.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nhello\\n')
def accept():
    with ThreadPoolExecutor(16) as pool:
        server = socket.create_server(('127.0.0.1', int(sys.argv[1])), backlog=200)
        while True:
            pool.submit(serve, server.accept()[0])
accept()
"""

NODE = """
const http = require('http'), cluster = require('cluster');
const serve = () => http.createServer((_, answer) => {
  const text = JSON.stringify(Array.from({length: 200}, (_, n) => 'x'.repeat(n)));
  answer.end(text.slice(0, 6));
}).listen(+process.argv[2], '127.0.0.1');
if (process.argv[3] && cluster.isPrimary) { cluster.fork(); cluster.fork(); } else serve();
"""

GO = """package main
import ("net/http"; "os")
func main() {
    http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello\\n")) })
    http.ListenAndServe("127.0.0.1:"+os.Args[1], nil)
}
"""

JAVA = """
import java.net.*; import java.util.concurrent.*;
public class Pool { public static void main(String[] words) throws Exception {
  ServerSocket server = new ServerSocket(Integer.parseInt(words[0]), 200, InetAddress.getByName("127.0.0.1"));
  ExecutorService pool = Executors.newFixedThreadPool(16);
  while (true) { Socket one = server.accept(); pool.submit(() -> { try (one) {
    byte[] got = new byte[4096];
    while (one.getInputStream().read(got) > 0)
      one.getOutputStream().write("HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nhello\\n".getBytes());
  } catch (Exception error) { } }); }
} }
"""

JAVA_HTTP = """
import com.sun.net.httpserver.*; import java.net.*; import java.util.concurrent.*;
public class Web { public static void main(String[] words) throws Exception {
  HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 200);
  server.setExecutor(Executors.newFixedThreadPool(8));
  server.createContext("/", one -> { one.sendResponseHeaders(200, 6); one.getResponseBody().write("hello\\n".getBytes());
    one.close(); });
  server.start();
} }
"""


def nginx(workers):
    def start(room):
        conf = f"""worker_processes {workers}; daemon off; pid {room.folder}/pid; error_log {room.folder}/log;
            events {{ worker_connections 512; }}
            http {{ access_log {room.folder}/access; sendfile on; keepalive_requests 100000;
                   server {{ listen 127.0.0.1:{room.port} backlog=200; root {room.folder}/site; }} }}"""
        return ["nginx", "-c", room.write("conf", conf)]
    return start


def apache(mpm):
    def start(room):
        modules = "/usr/lib/apache2/modules"
        sizes = "ThreadsPerChild 25\nMaxRequestWorkers 150" if mpm != "prefork" else "MaxRequestWorkers 150"
        conf = f"""ServerRoot {room.folder}\nServerName x\nListen 127.0.0.1:{room.port}\nPidFile {room.folder}/pid
            ErrorLog {room.folder}/log\nLoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so
            LoadModule authz_core_module {modules}/mod_authz_core.so\nUser nobody\nGroup nogroup
            KeepAlive On\nKeepAliveTimeout 5\nDocumentRoot {room.folder}/site\n{sizes}\n"""
        return ["apache2", "-f", room.write("conf", conf), "-D", "FOREGROUND"]
    return start


def lighttpd(room):
    conf = f"""server.document-root = "{room.folder}/site"\nserver.port = {room.port}\nserver.bind = "127.0.0.1"
        index-file.names = ("index.html")\nserver.max-keep-alive-requests = 1000\n"""
    return ["lighttpd", "-D", "-f", room.write("conf", conf)]


def h2o(room):
    conf = f"""num-threads: 4\nuser: root\nlisten: {{host: 127.0.0.1, port: {room.port}}}\npid-file: {room.folder}/pid
error-log: {room.folder}/log\nhosts:\n  default:\n    paths:\n      /:\n        file.dir: {room.folder}/site\n"""
    return ["h2o", "-c", room.write("conf", conf)]


def haproxy(room):
    conf = f"""global\n  nbthread 2\ndefaults\n  mode http\n  timeout client 9s\n  timeout server 9s\n  timeout connect 1s
frontend f\n  bind 127.0.0.1:{room.port}\n  http-request return status 200 content-type text/plain string "hello"\n"""
    return ["haproxy", "-db", "-f", room.write("conf", conf)]


def sshd(room):
    os.makedirs("/run/sshd", exist_ok=True)
    key = os.path.join(room.folder, "key")
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", key], check=True)
    conf = f"""Port {room.port}\nListenAddress 127.0.0.1\nHostKey {key}\nPidFile none\nMaxStartups 500\n"""
    return ["/usr/sbin/sshd", "-D", "-f", room.write("conf", conf)]


def postgres(room):
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    data = os.path.join(room.folder, "data")
    shutil.chown(room.folder, "postgres")
    run = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    subprocess.run(run + [f"{programs}/initdb", "-D", data, "-A", "trust", "-N"], check=True, stdout=subprocess.DEVNULL)
    return run + [f"{programs}/postgres", "-D", data, "-h", "127.0.0.1", "-p", str(room.port), "-k", room.folder,
                  "-c", "max_connections=150"]


def vsftpd(room):
    os.makedirs("/run/vsftpd/empty", exist_ok=True)
    conf = f"""listen=YES\nlisten_address=127.0.0.1\nlisten_port={room.port}\nanonymous_enable=YES\nbackground=NO
max_clients=500\nmax_per_ip=500\n"""
    return ["vsftpd", room.write("conf", conf)]


def postfix(room):
    queue, lib = os.path.join(room.folder, "queue"), os.path.join(room.folder, "lib")
    for folder in (queue, lib):
        os.makedirs(folder)
    shutil.chown(lib, "postfix")
    folder = os.path.join(room.folder, "conf")
    main = f"""queue_directory = {queue}\ndata_directory = {lib}\nmyhostname = x.example\ninet_interfaces = 127.0.0.1
compatibility_level = 3.6\nmynetworks = 127.0.0.0/8\nalias_maps =\nmaillog_file = {room.folder}/maillog
maillog_file_prefixes = {room.folder}\nsmtpd_client_connection_count_limit = 0\nsmtpd_peername_lookup = no
smtpd_relay_restrictions = permit_mynetworks, reject\ndefault_process_limit = 120\n"""
    master = f"""127.0.0.1:{room.port} inet n - n - 120 smtpd\ncleanup unix n - n - 0 cleanup
rewrite unix - - n - - trivial-rewrite\nanvil unix - - n - 1 anvil\nproxymap unix - - n - - proxymap
postlog unix-dgram n - n - 1 postlogd\ntlsmgr unix - - n 1000? 1 tlsmgr\n"""
    room.write("conf/main.cf", main)
    room.write("conf/master.cf", master)
    os.chmod(room.folder, 0o755)
    subprocess.run(["postfix", "-c", folder, "post-install", "create-missing"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return ["/usr/lib/postfix/sbin/master", "-c", folder, "-d"]


def dovecot(mode):
    def start(room):
        user = "dovecot"
        service = "service_count = 1\n process_min_avail = 0\n process_limit = 300" if mode == "secure" else \
            "service_count = 0\n process_min_avail = 2\n process_limit = 2"
        conf = f"""base_dir = {room.folder}/run\nstate_dir = {room.folder}/state\nprotocols = imap\nlisten = 127.0.0.1
ssl = no\nlog_path = {room.folder}/log\ndefault_login_user = dovenull\ndefault_internal_user = {user}
disable_plaintext_auth = no\npassdb {{\n driver = static\n args = nopassword=y\n}}
userdb {{\n driver = static\n args = uid=1000 gid=1000 home=/tmp\n}}
mail_max_userip_connections = 0
service imap-login {{\n {service}\n client_limit = 200\n inet_listener imap {{\n port = {room.port}\n }}
 inet_listener imaps {{\n port = 0\n }}\n}}\n"""
        os.chmod(room.folder, 0o755)
        return ["dovecot", "-F", "-c", room.write("conf", conf)]
    return start


def unbound(room):
    conf = f"""server:\n interface: 127.0.0.1\n port: {room.port}\n username: ""\n chroot: ""\n directory: "{room.folder}"
 do-daemonize: no\n use-syslog: no\n num-threads: 1\n incoming-num-tcp: 200\n pidfile: "{room.folder}/pid"
 logfile: "{room.folder}/log"\nremote-control:\n control-enable: no\n"""
    return ["unbound", "-d", "-c", room.write("conf", conf)]


def inetd(room):
    conf = f"127.0.0.1:{room.port} stream tcp nowait.6000 root /bin/cat cat\n"
    return ["inetd", "-i", room.write("conf", conf)]


def python(text, *words):
    def start(room):
        return [sys.executable, room.write("server.py", text), *words, str(room.port)]
    return start


def gunicorn(*words):
    def start(room):
        room.write("app.py", APP)
        return [sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{room.port}", "--backlog", "200", "--keep-alive", "5",
                *words, "app:app"]
    return start


def uvicorn(room):
    room.write("app.py", APP)
    return [sys.executable, "-m", "uvicorn", "--port", str(room.port), "--no-access-log", "app:asgi"]


def waitress(room):
    room.write("app.py", APP)
    return [sys.executable, "-m", "waitress", f"--listen=127.0.0.1:{room.port}", "--threads=8", "app:app"]


def node(*words):
    return lambda room: ["node", room.write("server.js", NODE), str(room.port), *words]


def go(room):
    room.write("main.go", GO)
    room.write("go.mod", "module x\n\ngo 1.18\n")
    subprocess.run(["go", "build", "-o", "server", "."], check=True, cwd=room.folder)
    return [os.path.join(room.folder, "server"), str(room.port)]


def java(name, text):
    def start(room):
        return ["java", "-Xmx128m", room.write(f"{name}.java", text), str(room.port)]
    return start


def plain(*words):
    return lambda room: [word.replace("PORT", str(room.port)).replace("ROOM", room.folder) for word in words]


# Name, command, load, and the architectures that are right.
PROGRAMS = [
    ("nginx, 1 worker", nginx(1), WEB, {"event_loop"}),
    ("nginx, 2 workers", nginx(2), WEB, {"event_loop_processes"}),
    ("Apache prefork", apache("prefork"), Load(60, 8, HTTP), {"prefork"}),
    ("Apache worker", apache("worker"), Load(80, 8, HTTP), {"thread_pool"}),
    ("Apache event", apache("event"), WEB, {"event_loop_processes"}),
    ("lighttpd", lighttpd, WEB, {"event_loop"}),
    ("h2o", h2o, WEB, {"event_loops"}),
    ("HAProxy", haproxy, WEB, {"event_loops"}),
    ("Redis", plain("redis-server", "--port", "PORT", "--save", "", "--dir", "ROOM"), Load(100, 8, b"PING\r\n"),
     {"event_loop"}),
    ("memcached", plain("memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", "PORT", "-U", "0"),
     Load(100, 8, b"version\r\n"), {"event_loops"}),
    ("OpenSSH sshd", sshd, Load(30, 1, b"SSH-2.0-x\r\n", has_banner=True), {"exec"}),
    ("PostgreSQL", postgres, Load(60, 4, b"Q\x00\x00\x00\x0dselect 1\x00", first=POSTGRES), {"fork"}),
    ("vsftpd", vsftpd, Load(40, 3, b"NOOP\r\n", has_banner=True), {"fork"}),
    ("Postfix smtpd", postfix, Load(60, 4, b"NOOP\r\n", has_banner=True), {"prefork"}),
    ("dovecot, a process for each login", dovecot("secure"), Load(40, 3, b"a NOOP\r\n", has_banner=True), {"exec"}),
    ("dovecot, 2 login processes", dovecot("fast"), Load(60, 4, b"a NOOP\r\n", has_banner=True),
     {"event_loop_processes"}),
    ("unbound, over TCP", unbound, Load(60, 4, DNS), {"event_loop"}),
    ("inetd", inetd, Load(60, 4, b"x\n"), {"exec"}),
    ("gunicorn sync", gunicorn("-w", "8"), SHORT, {"prefork"}),
    ("gunicorn gthread", gunicorn("-w", "1", "-k", "gthread", "--threads", "8"), Load(60, 8, HTTP),
     {"event_loop_with_workers"}),
    ("gunicorn gevent", gunicorn("-w", "1", "-k", "gevent"), WEB, {"event_loop"}),
    ("uvicorn", uvicorn, WEB, {"event_loop"}),
    ("waitress", waitress, Load(60, 8, HTTP), {"event_loop_with_workers"}),
    ("Node", node(), WEB, {"event_loop"}),
    ("Node cluster", node("cluster"), WEB, {"event_loop_processes"}),
    ("Go net/http", go, WEB, {"event_loops"}),
    ("Java, a pool of 16 threads", java("Pool", JAVA), Load(60, 8, HTTP), {"thread_pool"}),
    ("Java HttpServer with executor", java("Web", JAVA_HTTP), Load(60, 8, HTTP), {"event_loop_with_workers"}),
    ("Python, a pool of 16 threads", python(POOL), Load(60, 8, HTTP), {"thread_pool"}),
    ("Python ThreadingHTTPServer", python(SOCKETSERVER, "thread"), Load(60, 8, HTTP), {"thread"}),
    ("Python ForkingMixIn", python(SOCKETSERVER, "fork"), Load(60, 4, HTTP), {"fork"}),
    ("Python HTTPServer", python(SOCKETSERVER, "single"), Load(20, 4, HTTP), {"iterative"}),
    ("Python asyncio", python(ASYNCIO), WEB, {"event_loop"}),
]


def wait_for(port, child):
    for _ in range(400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        if child.poll() is not None:
            return False
        time.sleep(0.05)
    return False


def answers(load, port):
    """Returns whether the program replies to a request. A program that listens may still be starting its workers."""
    for _ in range(20):
        if asyncio.run(load.reply(port)):
            return True
        time.sleep(0.2)
    return False


def end(child):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return
        try:
            child.wait(3)
        except subprocess.TimeoutExpired:
            continue
    # Kill the processes of the group that outlived the first one.
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def inspect(landau, room, load, grade, seconds):
    words = [landau, "inspect", "--port", str(room.port), "--for", f"{seconds}s", "--json",
             "--evidence", {1: "proc", 2: "bpf", 3: "ptrace"}[grade]]
    pid = os.fork()
    if pid == 0:
        try:
            load.run(room.port, seconds + 1)
        finally:
            os._exit(0)
    time.sleep(0.5)
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not ran.stdout.startswith("{"):
        return {"architecture": None, "rule": ran.stderr.strip() or ran.stdout.strip()}
    return json.loads(ran.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--landau", default="landau")
    parser.add_argument("--only", default="")
    parser.add_argument("--grades", default="1,2")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--details", action="store_true")
    args = parser.parse_args()
    only = [word for word in args.only.split(",") if word]
    grades = [int(word) for word in args.grades.split(",")]
    wrong = 0
    for name, command, load, right in PROGRAMS:
        if only and not any(word.lower() in name.lower() for word in only):
            continue
        with tempfile.TemporaryDirectory(prefix="inspect.") as folder:
            os.chmod(folder, 0o755)
            room = Room(folder)
            try:
                words = command(room)
                child = subprocess.Popen(words, cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL,
                                         stdout=open(f"{folder}/out", "w"), stderr=subprocess.STDOUT)
            except (OSError, IndexError, subprocess.CalledProcessError, LookupError) as error:
                print(f"| {name} | skipped: {error} |", flush=True)
                continue
            try:
                if not wait_for(room.port, child):
                    text = " ".join(open(f"{folder}/out").read().split())
                    print(f"| {name} | skipped: it did not start: {text[-200:]} |", flush=True)
                    continue
                if not answers(load, room.port):
                    print(f"| {name} | skipped: it does not reply |", flush=True)
                    continue
                row, calls = [], ""
                for grade in grades:
                    found = inspect(args.landau, room, load, grade, args.seconds)
                    answer = found["architecture"]
                    wrong += answer is not None and answer not in right
                    mark = "" if answer in right else " WRONG" if answer else ""
                    row.append((f"`{answer}`" if answer else "cannot tell") + mark)
                    traced = found.get("traced")
                    if traced and not calls:
                        calls = f"{', '.join(traced['sends'])} | {', '.join(found['mechanism'])} | {traced['accepts']}"
                    if args.details or not answer:
                        print("  ", grade, found["rule"], found.get("candidates"), *found.get("evidence", []), sep="\n      ")
                if not wait_for(room.port, child):
                    wrong += 1
                    row.append("WRONG: it exited")
                print(f"| {name} | `{'`, `'.join(sorted(right))}` | {' | '.join(row)} | {calls} |", flush=True)
            finally:
                end(child)
    sys.exit(1 if wrong else 0)


main()
