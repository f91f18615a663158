package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// goRedis is the scenario with go-redis.
func goRedis() {
	ctx := context.Background()
	client := goRedisClient(nil)
	defer client.Close()
	goRedisPipelines(ctx, client)
	goRedisTransactions(ctx, client)

	if value, err := client.BLPop(ctx, time.Second, key("none")).Result(); errors.Is(err, redis.Nil) {
		say("blpop_timeout", nil)
	} else {
		panic(fmt.Sprint(value, err))
	}
	say("!blocking", "")
	say("blpop", must(client.BLPop(ctx, time.Minute, key("queue")).Result())[1])

	subscriber := client.Subscribe(ctx, key("channel"))
	defer subscriber.Close()
	must(subscriber.Receive(ctx))
	inbox := subscriber.Channel()
	ask("subscribed", "")
	say("published", must(client.Publish(ctx, key("channel"), "own").Result()))
	var received []string
	for len(received) <= messages {
		received = append(received, (<-inbox).Payload)
	}
	say("received", received)

	say("eval", must(client.Eval(ctx, script, []string{key("script")}, "x").Result()))
	sha := must(client.ScriptLoad(ctx, script).Result())
	say("evalsha", must(client.EvalSha(ctx, sha, []string{key("script")}, "y").Result()))
	say("noscript", client.EvalSha(ctx, unknownSha, nil).Err())

	value := must(client.Do(ctx, "BLOB.TCP_GET", key("placed")).Text())
	must(client.Do(ctx, "BLOB.TCP_SET", key("copy"), value).Result())
	say("large", len(value))

	if cache {
		goRedisCache(ctx)
	}
	goRedisReconnects(ctx, func() string { return (<-inbox).Payload })
}

func goRedisClient(change func(*redis.Options)) *redis.Client {
	network, name := address()
	options := &redis.Options{Network: network, Addr: name, Protocol: 2, ReadTimeout: patience}
	if protocol3 {
		options.Protocol = 3
	}
	if change != nil {
		change(options)
	}
	return redis.NewClient(options)
}

func goRedisPipelines(ctx context.Context, client *redis.Client) {
	var replies []any
	commands := must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range pairs {
			name := key(fmt.Sprintf("p%d", number))
			pipe.Do(ctx, "INCR", key("counter"))
			pipe.Do(ctx, "SET", name, fmt.Sprintf("v%d", number))
			pipe.Do(ctx, "GET", name)
		}
		return nil
	}))
	for _, command := range commands {
		replies = append(replies, must(command.(*redis.Cmd).Result()))
	}
	say("pipeline", replies)

	pipe := client.Pipeline()
	wrong, after := pipe.LPush(ctx, key("p0"), "x"), pipe.Get(ctx, key("p1"))
	_, _ = pipe.Exec(ctx)
	say("pipeline_error", wrong.Err())
	say("after_error", must(after.Result()))
}

func goRedisTransactions(ctx context.Context, client *redis.Client) {
	var replies []any
	commands := must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Do(ctx, "SET", key("transaction"), "a")
		pipe.Do(ctx, "INCR", key("n"))
		pipe.Do(ctx, "GET", key("transaction"))
		return nil
	}))
	for _, command := range commands {
		replies = append(replies, must(command.(*redis.Cmd).Result()))
	}
	say("transaction", replies)

	err := client.Watch(ctx, func(tx *redis.Tx) error {
		ask("watched", "")
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, key("watched"), "mine", 0).Err()
		})
		return err
	}, key("watched"))
	if errors.Is(err, redis.TxFailedErr) {
		say("conflict", "aborted")
	} else {
		say("conflict", err)
	}
}

func goRedisCache(ctx context.Context) {
	client := goRedisClient(func(options *redis.Options) { options.ClientSideCacheConfig = &redis.ClientSideCacheConfig{} })
	defer client.Close()
	must(client.Get(ctx, key("cached")).Result())
	ask("cache_begin", "")
	for range cachedReads {
		must(client.Get(ctx, key("cached")).Result())
	}
	ask("cache_end", "")
	say("cached", trying(func() (string, error) { return isNew(client.Get(ctx, key("cached")).Result()) }))
}

func isNew(value string, err error) (string, error) {
	if err == nil && value != "new" {
		err = fmt.Errorf("still %s", value)
	}
	return value, err
}

func goRedisReconnects(ctx context.Context, next func() string) {
	client := goRedisClient(func(options *redis.Options) { options.PoolSize = 1 })
	defer client.Close()
	ask("kill", must(client.ClientID(ctx).Result()))
	get := func() (string, error) { return client.Get(ctx, key("p1")).Result() }
	say("after_kill", trying(get))
	say("new_id", must(client.ClientID(ctx).Result()))
	ask("restart", "")
	say("after_restart", trying(get))
	// The subscriber subscribes again by itself.
	trying(func() (bool, error) {
		count, err := client.Publish(ctx, key("channel"), "again").Result()
		if err == nil && count != 1 {
			err = errors.New("no subscriber yet")
		}
		return true, err
	})
	say("resubscribed", next())
}
