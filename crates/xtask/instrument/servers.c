/* Plain servers that answer each connection to 127.0.0.1 with "450 too busy" and close it: the counterparts of Landau's
 * architectures.
 *
 * Usage: servers exec|fork|prefork|thread|thread-pool|event-loop. Prints the port. Each server is written as in a
 * textbook on network programming, without a limit on the processes or threads that it starts. `servers reply` is the
 * program that `exec` executes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPLY "450 too busy\r\n"
#define POOL 16

extern char **environ;
static int listener;

static void check(int is_good, const char *call)
{
    if (!is_good) {
        perror(call);
        exit(1);
    }
}

static void answer(int connection)
{
    /* A disconnected client is not an error of the server. */
    ssize_t sent = send(connection, REPLY, strlen(REPLY), MSG_NOSIGNAL);
    (void)sent;
    close(connection);
}

static int next_connection(void)
{
    for (;;) {
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection >= 0)
            return connection;
        check(errno == EINTR || errno == ECONNABORTED, "accept4");
    }
}

static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void serve_by_exec(void)
{
    char *words[] = {"reply", "reply", NULL};
    for (;;) {
        int connection = next_connection();
        reap();
        posix_spawn_file_actions_t actions;
        pid_t child;
        check(posix_spawn_file_actions_init(&actions) == 0, "posix_spawn_file_actions_init");
        posix_spawn_file_actions_adddup2(&actions, connection, 0);
        posix_spawn_file_actions_adddup2(&actions, connection, 1);
        check(posix_spawn(&child, "/proc/self/exe", &actions, NULL, words, environ) == 0, "posix_spawn");
        posix_spawn_file_actions_destroy(&actions);
        close(connection);
    }
}

static void serve_by_fork(void)
{
    for (;;) {
        int connection = next_connection();
        reap();
        pid_t child = fork();
        check(child >= 0, "fork");
        if (child == 0) {
            answer(connection);
            _exit(0);
        }
        close(connection);
    }
}

static void *serve_in_turn(void *unused)
{
    (void)unused;
    for (;;)
        answer(next_connection());
    return NULL;
}

static void serve_by_processes(void)
{
    for (int i = 0; i < POOL; i++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve_in_turn(NULL);
        }
    }
    while (wait(NULL) > 0)
        ;
}

static void *answer_one(void *connection)
{
    answer((int)(long)connection);
    return NULL;
}

static void serve_by_threads(void)
{
    pthread_attr_t detached;
    check(pthread_attr_init(&detached) == 0, "pthread_attr_init");
    check(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0, "pthread_attr_setdetachstate");
    for (;;) {
        pthread_t thread;
        long connection = next_connection();
        check(pthread_create(&thread, &detached, answer_one, (void *)connection) == 0, "pthread_create");
    }
}

static void serve_by_pool(void)
{
    pthread_t thread;
    for (int i = 0; i < POOL; i++)
        check(pthread_create(&thread, NULL, serve_in_turn, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

static void serve_by_events(void)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    check(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == 0, "epoll_ctl");
    for (;;) {
        if (epoll_wait(set, &event, 1, -1) < 1)
            continue;
        int connection;
        while ((connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
            answer(connection);
        check(errno == EAGAIN || errno == EINTR || errno == ECONNABORTED, "accept4");
    }
}

int main(int argc, char **argv)
{
    const char *way = argc == 2 ? argv[1] : "";
    if (strcmp(way, "reply") == 0)
        return write(1, REPLY, strlen(REPLY)) < 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int is_event = strcmp(way, "event-loop") == 0, on = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (is_event ? SOCK_NONBLOCK : 0), 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    check(listener >= 0, "socket");
    check(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "setsockopt");
    check(bind(listener, (struct sockaddr *)&address, length) == 0, "bind");
    check(listen(listener, 65535) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    if (strcmp(way, "exec") == 0)
        serve_by_exec();
    else if (strcmp(way, "fork") == 0)
        serve_by_fork();
    else if (strcmp(way, "prefork") == 0)
        serve_by_processes();
    else if (strcmp(way, "thread") == 0)
        serve_by_threads();
    else if (strcmp(way, "thread-pool") == 0)
        serve_by_pool();
    else if (is_event)
        serve_by_events();
    fprintf(stderr, "usage: servers exec|fork|prefork|thread|thread-pool|event-loop\n");
    return 2;
}
