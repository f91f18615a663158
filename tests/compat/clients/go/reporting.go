// How a Go program of the scenario gets its task and talks to scenario.py.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	pairs       = 100
	messages    = 50
	cachedReads = 50
	script      = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}"
	patience    = 100 * time.Second
)

var (
	unknownSha = strings.Repeat("f", 40)
	answers    = bufio.NewReader(os.Stdin)
	protocol3  = os.Getenv("KF_PROTOCOL") == "3"
	cache      = os.Getenv("KF_CACHE") == "1"
)

func address() (network, name string) {
	if path := os.Getenv("KF_UNIX"); path != "" {
		return "unix", path
	}
	return "tcp", os.Getenv("KF_HOST") + ":" + os.Getenv("KF_PORT")
}

func key(name string) string { return os.Getenv("KF_PREFIX") + name }

func text(value any) string {
	switch value := value.(type) {
	case nil:
		return "nil"
	case []string:
		return strings.Join(value, ",")
	case []any:
		parts := make([]string, len(value))
		for index, each := range value {
			parts[index] = text(each)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value)
}

func say(name string, value any) { fmt.Printf("%s\t%s\n", name, text(value)) }

func ask(name string, value any) {
	say("?"+name, value)
	if _, err := answers.ReadString('\n'); err != nil {
		panic(err)
	}
}

// must ends the program at an error that the scenario doesn't provoke.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// trying calls attempt again and again until it succeeds, within bounds.
func trying[T any](attempt func() (T, error)) T {
	limit := time.Now().Add(patience)
	for {
		value, err := attempt()
		if err == nil {
			return value
		}
		if time.Now().After(limit) {
			panic(fmt.Sprintf("tried in vain: %v", err))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func main() {
	switch os.Args[1] {
	case "go-redis":
		goRedis()
	case "valkey-go":
		valkeyGo()
	default:
		panic(os.Args[1])
	}
}
