#include "gateway/client_query.h"

#include "gateway/command_table.h"
#include "gateway/pin.h"
#include "gateway/session.h"
#include "resp/decode.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

// No client is as old, so a filter that ends with it is judged and means nobody.
constexpr std::string_view kOlderThanAny = "4000000000";
// CLIENT KILL addr, the form without filters.
constexpr std::size_t kOldKill = 3;

std::string command(std::span<const std::string_view> words) {
  std::string bytes;
  resp::append_command(bytes, words);
  return bytes;
}

bool is_error(std::string_view reply) {
  return reply.starts_with('-') || reply.starts_with('!');
}

}  // namespace

ClientQuery::ClientQuery(Session& session, SlotTag tag, std::span<const std::string_view> args, bool silent)
    : session_(session.weak_from_this()),
      tag_(tag),
      args_(args.begin(), args.end()),
      lists_(equals_upper(args[1], "LIST")),
      kills_(equals_upper(args[1], "KILL")),
      silent_(silent) {}

void ClientQuery::ask(Pin& pin) {
  asked_ = base::Clock::steady().now();
  std::vector<std::string_view> words(args_.begin(), args_.end());
  if (words.size() > 2 && (lists_ || kills_)) {
    if (kills_ && words.size() == kOldKill) words.back() = "MAXAGE";
    if (kills_ && words.size() == kOldKill) {
      words.push_back(kOlderThanAny);
    } else if (words.size() > kOldKill) {
      words.insert(words.end(), {"MAXAGE", kOlderThanAny});
    }
    pin.send(command(words), tag_,
             {.effect = PinEffect::kSilent, .answer = [self = shared_from_this()](const std::string& reply) {
                if (is_error(reply)) self->refusal_ = reply;
              }});
    words.assign({"CLIENT", "LIST"});
  }
  pin.send(command(words), tag_,
           {.answer = [self = shared_from_this()](const std::string& reply) { self->answer(reply); }});
}

void ClientQuery::answer(const std::string& reply) {
  const std::shared_ptr<Session> session = session_.lock();
  if (!session) return;
  if (!refusal_.empty()) return finish(refusal_);
  const bool filtered = args_.size() > 2;
  const resp::DecodeResult decoded = resp::decode(reply);
  const bool told = decoded.ok() && !decoded.value.is_error();
  // What the server says as it is would show its ids, and who else is connected to it.
  if (!decoded.ok() && !kills_) return finish("-ERR keyferry: the server's list of clients is too long\r\n");
  // A user who may kill need not be allowed to list: then what the gateway knows must do.
  if (!told && !(kills_ && filtered)) return finish(reply);
  const std::string_view server_list = told ? std::string_view(decoded.value.text) : std::string_view();

  const base::TimePoint now = base::Clock::steady().now();
  self_ = std::to_string(session->client().id);
  if (!lists_ && !kills_) {
    session->tell_directory();
    const ClientLine server(server_list);
    return tell(line_of(session->facts(), &server, now).text());
  }
  std::vector<LocalClient> clients = local_clients(session->worker().directory, server_list, asked_, now);
  const std::vector<std::string_view> words(args_.begin(), args_.end());
  if (kills_ && words.size() == kOldKill) {
    std::erase_if(clients, [&](const LocalClient& one) { return one.line.get("addr") != words.back(); });
    return kill(clients);
  }
  const ClientFilter filter(std::span<const std::string_view>(words).subspan(2), kills_);
  std::erase_if(clients, [&](const LocalClient& one) { return !filter.matches(one.line, self_); });
  if (kills_) return kill(clients);
  std::string text;
  for (const LocalClient& client : clients) text += client.line.text();
  tell(text);
}

void ClientQuery::tell(const std::string& text) {
  const std::shared_ptr<Session> session = session_.lock();
  std::string bytes;
  resp::append_verbatim(bytes, session->client().protocol, "txt", text);
  finish(bytes);
}

/// The reply waits until the others have ended: what the client does next must not find them alive.
void ClientQuery::kill(const std::vector<LocalClient>& matching) {
  const std::shared_ptr<Session> session = session_.lock();
  WorkerContext& worker = session->worker();
  ending_ = 1;
  for (const LocalClient& client : matching) {
    if (client.id == session->client().id) {
      ends_itself_ = true;
      ++count_;
      continue;
    }
    const auto done = [self = shared_from_this(), &loop = worker.loop] { loop.post([self] { self->killed(); }); };
    if (!worker.directory.kill(client.id, done)) continue;
    ++ending_;
    ++count_;
  }
  killed();
}

void ClientQuery::killed() {
  if (--ending_ != 0) return;
  if (args_.size() == kOldKill) return finish(count_ == 0 ? "-ERR No such client\r\n" : "+OK\r\n");
  finish(":" + std::to_string(count_) + "\r\n");
}

void ClientQuery::finish(const std::string& bytes) {
  over_ = true;
  const std::shared_ptr<Session> session = session_.lock();
  // It may have lost its connection, and its replies with that, while others were being ended.
  if (!session || session->closed() || !session->owes(tag_)) return;
  if (!silent_) session->reply(tag_, bytes);
  session->finish_reply(tag_);
  if (ends_itself_) session->close_after_output();
}

}  // namespace keyferry::gateway
