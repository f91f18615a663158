package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/valkey-io/valkey-go"
)

// valkeyGo is the scenario with valkey-go.
func valkeyGo() {
	ctx := context.Background()
	client := valkeyGoClient()
	defer client.Close()
	valkeyGoPipelines(ctx, client)
	valkeyGoTransactions(ctx, client)

	_, err := client.Do(ctx, client.B().Blpop().Key(key("none")).Timeout(0.05).Build()).AsStrSlice()
	if !valkey.IsValkeyNil(err) {
		panic(err)
	}
	say("blpop_timeout", nil)
	say("!blocking", "")
	say("blpop", must(client.Do(ctx, client.B().Blpop().Key(key("queue")).Timeout(60).Build()).AsStrSlice())[1])

	valkeyGoPublishAndSubscribe(ctx, client)

	say("eval", valkeyGoText(must(client.Do(ctx, client.B().Eval().Script(script).Numkeys(1).Key(key("script")).Arg("x").Build()).ToArray())))
	sha := must(client.Do(ctx, client.B().ScriptLoad().Script(script).Build()).ToString())
	say("evalsha", valkeyGoText(must(client.Do(ctx, client.B().Evalsha().Sha1(sha).Numkeys(1).Key(key("script")).Arg("y").Build()).ToArray())))
	say("noscript", client.Do(ctx, client.B().Evalsha().Sha1(unknownSha).Numkeys(0).Build()).Error())

	value := must(client.Do(ctx, client.B().Arbitrary("BLOB.TCP_GET").Keys(key("placed")).Build()).ToString())
	must(client.Do(ctx, client.B().Arbitrary("BLOB.TCP_SET").Keys(key("copy")).Args(value).Build()).ToString())
	say("large", len(value))

	if cache {
		valkeyGoCache(ctx, client)
	}
	valkeyGoReconnects(ctx, client)
}

func valkeyGoClient() valkey.Client {
	network, name := address()
	return must(valkey.NewClient(valkey.ClientOption{
		InitAddress:       []string{name},
		AlwaysRESP2:       !protocol3,
		DisableCache:      !protocol3,
		ForceSingleClient: true,
		ConnWriteTimeout:  patience,
		DialCtxFn: func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, network, name)
		},
	}))
}

func valkeyGoText(values []valkey.ValkeyMessage) []any {
	var result []any
	for index := range values {
		result = append(result, must(values[index].ToAny()))
	}
	return result
}

func valkeyGoPipelines(ctx context.Context, client valkey.Client) {
	var commands valkey.Commands
	for number := range pairs {
		name := key(fmt.Sprintf("p%d", number))
		commands = append(commands, client.B().Incr().Key(key("counter")).Build(),
			client.B().Set().Key(name).Value(fmt.Sprintf("v%d", number)).Build(), client.B().Get().Key(name).Build())
	}
	var replies []any
	for _, reply := range client.DoMulti(ctx, commands...) {
		replies = append(replies, must(reply.ToAny()))
	}
	say("pipeline", replies)
	mixed := client.DoMulti(ctx, client.B().Lpush().Key(key("p0")).Element("x").Build(), client.B().Get().Key(key("p1")).Build())
	say("pipeline_error", mixed[0].Error())
	say("after_error", must(mixed[1].ToString()))
}

func valkeyGoTransactions(ctx context.Context, client valkey.Client) {
	err := client.Dedicated(func(own valkey.DedicatedClient) error {
		replies := own.DoMulti(ctx, own.B().Multi().Build(), own.B().Set().Key(key("transaction")).Value("a").Build(),
			own.B().Incr().Key(key("n")).Build(), own.B().Get().Key(key("transaction")).Build(), own.B().Exec().Build())
		say("transaction", valkeyGoText(must(replies[4].ToArray())))

		must(own.Do(ctx, own.B().Watch().Key(key("watched")).Build()).ToString())
		ask("watched", "")
		replies = own.DoMulti(ctx, own.B().Multi().Build(), own.B().Set().Key(key("watched")).Value("mine").Build(), own.B().Exec().Build())
		if valkey.IsValkeyNil(replies[2].Error()) {
			say("conflict", "aborted")
		} else {
			say("conflict", replies[2].Error())
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
}

func valkeyGoPublishAndSubscribe(ctx context.Context, client valkey.Client) {
	// A client of its own: in RESP3 it subscribes on the connection of its ordinary commands, in RESP2 on a second one.
	subscriber := valkeyGoClient()
	inbox := make(chan string, messages+1)
	ended := make(chan error)
	go func() {
		ended <- subscriber.Receive(ctx, subscriber.B().Subscribe().Channel(key("channel")).Build(),
			func(message valkey.PubSubMessage) { inbox <- message.Message })
	}()
	ask("subscribed", "")
	say("published", must(client.Do(ctx, client.B().Publish().Channel(key("channel")).Message("own").Build()).ToInt64()))
	var received []string
	for len(received) <= messages {
		received = append(received, <-inbox)
	}
	say("received", received)
	subscriber.Close()
	<-ended
}

func valkeyGoCache(ctx context.Context, client valkey.Client) {
	get := func() (string, error) {
		return client.DoCache(ctx, client.B().Get().Key(key("cached")).Cache(), time.Hour).ToString()
	}
	must(get())
	ask("cache_begin", "")
	for range cachedReads {
		must(get())
	}
	ask("cache_end", "")
	say("cached", trying(func() (string, error) { return isNew(get()) }))
}

func valkeyGoReconnects(ctx context.Context, client valkey.Client) {
	id := func() (int64, error) {
		number, err := client.Do(ctx, client.B().ClientId().Build()).ToInt64()
		if err == nil && number <= 0 {
			err = errors.New("no id")
		}
		return number, err
	}
	get := func() (string, error) { return client.Do(ctx, client.B().Get().Key(key("p1")).Build()).ToString() }
	ask("kill", must(id()))
	say("after_kill", trying(get))
	say("new_id", trying(id))
	ask("restart", "")
	say("after_restart", trying(get))
}
