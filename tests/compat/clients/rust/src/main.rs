//! The scenario with redis-rs, synchronous.

use redis::{Client, Commands, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, Value};
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

const PAIRS: usize = 100;
const MESSAGES: usize = 50;
const SCRIPT: &str = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}";
const PATIENCE: Duration = Duration::from_secs(100);

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn key(name: &str) -> String {
    variable("KF_PREFIX") + name
}

fn say(name: &str, value: impl AsRef<str>) {
    println!("{name}\t{}", value.as_ref());
    io::stdout().flush().expect("stdout");
}

fn ask(name: &str, value: &str) {
    say(&format!("?{name}"), value);
    io::stdin().lock().read_line(&mut String::new()).expect("stdin");
}

fn text(value: &Value) -> String {
    match value {
        Value::Nil => "nil".into(),
        Value::Okay => "OK".into(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::SimpleString(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        other => format!("{other:?}"),
    }
}

fn address() -> RedisResult<ConnectionInfo> {
    let protocol = variable("KF_PROTOCOL");
    let unix = variable("KF_UNIX");
    if unix.is_empty() {
        return format!("redis://{}:{}/?protocol=resp{protocol}", variable("KF_HOST"), variable("KF_PORT")).into_connection_info();
    }
    let parsed = format!("redis+unix://{unix}?protocol=resp{protocol}").into_connection_info()?;
    assert!(matches!(parsed.addr(), ConnectionAddr::Unix(_)));
    Ok(parsed)
}

fn pipelines(connection: &mut Connection) -> Outcome {
    let mut pipe = redis::pipe();
    for number in 0..PAIRS {
        pipe.incr(key("counter"), 1).set(key(&format!("p{number}")), format!("v{number}")).get(key(&format!("p{number}")));
    }
    let replies: Vec<Value> = pipe.query(connection)?;
    say("pipeline", text(&Value::Array(replies)));
    let error = redis::pipe().lpush(key("p0"), "x").get(key("p1")).query::<Vec<Value>>(connection).expect_err("LPUSH on a string");
    say("pipeline_error", error.to_string());
    say("after_error", connection.get::<_, String>(key("p1"))?);
    Ok(())
}

fn transactions(connection: &mut Connection) -> Outcome {
    let mut pipe = redis::pipe();
    let replies: Vec<Value> = pipe.atomic().set(key("transaction"), "a").incr(key("n"), 1).get(key("transaction")).query(connection)?;
    say("transaction", text(&Value::Array(replies)));
    redis::cmd("WATCH").arg(key("watched")).exec(connection)?;
    ask("watched", "");
    let replies: Option<Vec<Value>> = redis::pipe().atomic().set(key("watched"), "mine").query(connection)?;
    say("conflict", if replies.is_none() { "aborted" } else { "executed" });
    Ok(())
}

fn blocking(connection: &mut Connection) -> Outcome {
    let nothing: Option<(String, String)> = connection.blpop(key("none"), 0.05)?;
    say("blpop_timeout", nothing.map_or("nil".into(), |pair| pair.1));
    say("!blocking", "");
    let (_, item): (String, String) = connection.blpop(key("queue"), 60.0)?;
    say("blpop", item);
    Ok(())
}

fn publish_and_subscribe(client: &Client, connection: &mut Connection) -> Outcome {
    let mut other = client.get_connection()?;
    let mut subscriber = other.as_pubsub();
    subscriber.subscribe(key("channel"))?;
    ask("subscribed", "");
    say("published", connection.publish::<_, _, i64>(key("channel"), "own")?.to_string());
    let mut received = Vec::new();
    for _ in 0..=MESSAGES {
        received.push(subscriber.get_message()?.get_payload::<String>()?);
    }
    say("received", received.join(","));
    Ok(())
}

fn scripts(connection: &mut Connection) -> Outcome {
    let error = redis::cmd("EVALSHA").arg("f".repeat(40)).arg(0).exec(connection).expect_err("EVALSHA of an unknown script");
    let seen: Value = redis::cmd("EVAL").arg(SCRIPT).arg(1).arg(key("script")).arg("x").query(connection)?;
    say("eval", text(&seen));
    let seen: Value = redis::Script::new(SCRIPT).key(key("script")).arg("y").invoke(connection)?;
    say("evalsha", text(&seen));
    say("noscript", error.to_string());
    Ok(())
}

fn large(connection: &mut Connection) -> Outcome {
    let value: Vec<u8> = redis::cmd("BLOB.TCP_GET").arg(key("placed")).query(connection)?;
    redis::cmd("BLOB.TCP_SET").arg(key("copy")).arg(&value).exec(connection)?;
    say("large", value.len().to_string());
    Ok(())
}

/// A connection that broke stays broken: the application makes a new one until a GET is answered.
fn report_after_reconnect(name: &str, client: &Client, connection: &mut Connection) -> Outcome {
    let started = Instant::now();
    loop {
        match connection.get::<_, String>(key("p1")) {
            Ok(value) => {
                say(name, value);
                return Ok(());
            }
            Err(error) if started.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
        if let Ok(renewed) = client.get_connection() {
            *connection = renewed;
        }
    }
}

fn reconnects(client: &Client, connection: &mut Connection) -> Outcome {
    let id = |connection: &mut Connection| redis::cmd("CLIENT").arg("ID").query::<i64>(connection);
    ask("kill", &id(connection)?.to_string());
    report_after_reconnect("after_kill", client, connection)?;
    say("new_id", id(connection)?.to_string());
    ask("restart", "");
    report_after_reconnect("after_restart", client, connection)
}

fn main() -> Outcome {
    let client = Client::open(address()?)?;
    let mut connection = client.get_connection()?;
    pipelines(&mut connection)?;
    transactions(&mut connection)?;
    blocking(&mut connection)?;
    publish_and_subscribe(&client, &mut connection)?;
    scripts(&mut connection)?;
    large(&mut connection)?;
    reconnects(&client, &mut connection)
}
