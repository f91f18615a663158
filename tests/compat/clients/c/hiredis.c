// The scenario with libhiredis, as Debian has it: RESP2, synchronous, every reply asked for by hand.

#define _POSIX_C_SOURCE 200809L  // nanosleep, SIGPIPE

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kPairs = 100, kMessages = 50, kTries = 5000 };
static const char kScript[] = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}";
static const char* prefix;
static redisContext* context;

static void die(const char* what) {
    fprintf(stderr, "hiredis: %s: %s\n", what, context && context->err ? context->errstr : "unexpected reply");
    exit(1);
}

static redisContext* connected(void) {
    const char* path = getenv("KF_UNIX");
    return path ? redisConnectUnix(path) : redisConnect(getenv("KF_HOST"), atoi(getenv("KF_PORT")));
}

static redisReply* call(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply* reply = redisvCommand(context, format, arguments);
    va_end(arguments);
    if (!reply) die(format);
    return reply;
}

static redisReply* next_reply(redisContext* from) {
    void* reply;
    if (redisGetReply(from, &reply) != REDIS_OK) die("a reply");
    return reply;
}

static void print_value(const redisReply* reply) {
    switch (reply->type) {
        case REDIS_REPLY_INTEGER: printf("%lld", reply->integer); break;
        case REDIS_REPLY_NIL: printf("nil"); break;
        case REDIS_REPLY_ARRAY:
            for (size_t index = 0; index < reply->elements; ++index) {
                if (index) putchar(',');
                print_value(reply->element[index]);
            }
            break;
        default: fwrite(reply->str, 1, reply->len, stdout);
    }
}

static void say(const char* name, redisReply* reply) {
    printf("%s\t", name);
    print_value(reply);
    putchar('\n');
    fflush(stdout);
    freeReplyObject(reply);
}

static void wait_for_answer(void) {
    char line[16];
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) die("an answer");
}

static void ask(const char* name) {
    printf("?%s\t\n", name);
    wait_for_answer();
}

static void pipelines(void) {
    for (int number = 0; number < kPairs; ++number) {
        redisAppendCommand(context, "INCR %scounter", prefix);
        redisAppendCommand(context, "SET %sp%d v%d", prefix, number, number);
        redisAppendCommand(context, "GET %sp%d", prefix, number);
    }
    printf("pipeline\t");
    for (int number = 0; number < 3 * kPairs; ++number) {
        redisReply* reply = next_reply(context);
        if (number) putchar(',');
        print_value(reply);
        freeReplyObject(reply);
    }
    putchar('\n');
    redisAppendCommand(context, "LPUSH %sp0 x", prefix);
    redisAppendCommand(context, "GET %sp1", prefix);
    say("pipeline_error", next_reply(context));
    say("after_error", next_reply(context));
}

static void transactions(void) {
    freeReplyObject(call("MULTI"));
    freeReplyObject(call("SET %stransaction a", prefix));
    freeReplyObject(call("INCR %sn", prefix));
    freeReplyObject(call("GET %stransaction", prefix));
    say("transaction", call("EXEC"));
    freeReplyObject(call("WATCH %swatched", prefix));
    ask("watched");
    freeReplyObject(call("MULTI"));
    freeReplyObject(call("SET %swatched mine", prefix));
    redisReply* reply = call("EXEC");
    printf("conflict\t%s\n", reply->type == REDIS_REPLY_NIL ? "aborted" : "executed");
    freeReplyObject(reply);
}

static void blocking(void) {
    say("blpop_timeout", call("BLPOP %snone 0.05", prefix));
    printf("!blocking\t\n");
    fflush(stdout);
    redisReply* reply = call("BLPOP %squeue 60", prefix);
    if (reply->elements != 2) die("BLPOP");
    printf("blpop\t%s\n", reply->element[1]->str);
    freeReplyObject(reply);
}

static void publish_and_subscribe(void) {
    redisContext* subscriber = connected();
    redisReply* reply = redisCommand(subscriber, "SUBSCRIBE %schannel", prefix);
    if (!reply || reply->elements != 3) die("SUBSCRIBE");
    freeReplyObject(reply);
    ask("subscribed");
    say("published", call("PUBLISH %schannel own", prefix));
    printf("received\t");
    for (int number = 0; number <= kMessages; ++number) {
        reply = next_reply(subscriber);
        if (reply->elements != 3 || strcmp(reply->element[0]->str, "message") != 0) die("a message");
        printf("%s%s", number ? "," : "", reply->element[2]->str);
        freeReplyObject(reply);
    }
    putchar('\n');
    redisFree(subscriber);
}

static void scripts(void) {
    say("eval", call("EVAL %s 1 %sscript x", kScript, prefix));
    redisReply* sha = call("SCRIPT LOAD %s", kScript);
    say("evalsha", call("EVALSHA %s 1 %sscript y", sha->str, prefix));
    freeReplyObject(sha);
    say("noscript", call("EVALSHA ffffffffffffffffffffffffffffffffffffffff 0"));
}

static void large(void) {
    redisReply* value = call("BLOB.TCP_GET %splaced", prefix);
    freeReplyObject(call("BLOB.TCP_SET %scopy %b", prefix, value->str, value->len));
    printf("large\t%zu\n", (size_t)value->len);
    freeReplyObject(value);
}

// After a connection that broke: by redisReconnect, again and again until a GET is answered.
static void report_after_reconnect(const char* name) {
    const struct timespec pause = {0, 20000000};
    for (int tries = 0; tries < kTries; ++tries) {
        redisReply* reply = redisCommand(context, "GET %sp1", prefix);
        if (reply) {
            say(name, reply);
            return;
        }
        nanosleep(&pause, NULL);
        redisReconnect(context);
    }
    die(name);
}

static void reconnects(void) {
    redisReply* id = call("CLIENT ID");
    printf("?kill\t%lld\n", id->integer);
    freeReplyObject(id);
    wait_for_answer();
    report_after_reconnect("after_kill");
    say("new_id", call("CLIENT ID"));
    ask("restart");
    report_after_reconnect("after_restart");
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);  // writing to a connection that was closed is an error of that connection
    prefix = getenv("KF_PREFIX");
    context = connected();
    if (!context || context->err) die("connecting");
    pipelines();
    transactions();
    blocking();
    publish_and_subscribe();
    scripts();
    large();
    reconnects();
    redisFree(context);
    return 0;
}
