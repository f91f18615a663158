#include "upstream/silence_check.h"

#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "resp/decode.h"
#include "resp/writer.h"

namespace keyferry::upstream {

namespace {

// The line of one connection has a few hundred bytes.
constexpr std::size_t kLongestReply = 16 * base::kKiB;

}  // namespace

SilenceVerdict judge_silence(std::string_view reply) {
  const resp::DecodeResult decoded = resp::decode(reply);
  using Kind = resp::Value::Kind;
  if (!decoded.ok() || (decoded.value.kind != Kind::kBulk && decoded.value.kind != Kind::kVerbatim))
    return SilenceVerdict::kNotTold;
  const std::string& line = decoded.value.text;
  const std::size_t at = line.find(" flags=");
  if (at == std::string::npos) return SilenceVerdict::kGone;
  const std::size_t begin = at + std::string_view(" flags=").size();
  const std::string_view flags = std::string_view(line).substr(begin, line.find(' ', begin) - begin);
  return flags.find('b') == std::string_view::npos ? SilenceVerdict::kStuck : SilenceVerdict::kHeld;
}

struct SilenceCheck::Impl : std::enable_shared_from_this<Impl> {
  Impl(base::Loop& its_loop, ConnectOptions its_options, base::Duration its_silent)
      : loop(its_loop), options(std::move(its_options)), silent(its_silent) {}

  bool is_silent(const Channel& channel, base::TimePoint now) const {
    const auto since = channel.silent_since();
    return since && now - *since >= silent && channel.client_id() != 0;
  }
  void begin(const std::shared_ptr<Channel>& channel, base::TimePoint now);
  void ask();
  void read();
  void received(std::string_view bytes);
  void judged(SilenceVerdict verdict);
  void end();

  base::Loop& loop;
  ConnectOptions options;
  base::Duration silent;

  // The channel that is asked after, since when, and the one that was found stuck last time, with the silence that it
  // was found in.
  std::weak_ptr<Channel> asked_after;
  base::TimePoint asked_at{};
  bool asking = false;
  std::weak_ptr<Channel> stuck;
  std::optional<base::TimePoint> stuck_since;
  // Handlers of an earlier question find another number.
  std::uint64_t turn = 0;
  std::unique_ptr<Connection> connection;
  std::string command;
  std::string reply;
};

void SilenceCheck::Impl::begin(const std::shared_ptr<Channel>& channel, base::TimePoint now) {
  asking = true;
  asked_after = channel;
  asked_at = now;
  reply.clear();
  command.clear();
  resp::append_command(command, {"CLIENT", "LIST", "ID", std::to_string(channel->client_id())});
  Connection::connect(loop, options,
                      [weak = weak_from_this(), mine = ++turn](base::Result<std::unique_ptr<Connection>> result) {
                        const auto self = weak.lock();
                        if (!self || self->turn != mine) return;
                        // Not reachable: that is no proof that the other connection is dead.
                        if (!result) return self->end();
                        self->connection = std::move(*result);
                        self->ask();
                      });
}

void SilenceCheck::Impl::ask() {
  connection->write({base::as_bytes(command)}, [self = shared_from_this()](std::error_code) {});
  read();
}

void SilenceCheck::Impl::read() {
  connection->read([self = shared_from_this(), mine = turn](std::error_code error, std::string_view bytes) {
    if (self->turn != mine) return;
    if (error) return self->end();
    self->received(bytes);
  });
}

void SilenceCheck::Impl::received(std::string_view bytes) {
  reply.append(bytes);
  if (reply.size() > kLongestReply) return end();
  if (resp::decode(reply).status == resp::DecodeResult::Status::kIncomplete) return read();
  judged(judge_silence(reply));
}

void SilenceCheck::Impl::judged(SilenceVerdict verdict) {
  const auto channel = asked_after.lock();
  // It may have spoken, or have been asked something new, while the question was under way.
  if (channel && channel->silent_since() && *channel->silent_since() < asked_at) {
    if (verdict == SilenceVerdict::kGone) {
      channel->give_up("connection lost: the server does not know it any more");
    } else if (verdict == SilenceVerdict::kStuck) {
      if (stuck.lock() == channel && stuck_since == channel->silent_since())
        channel->give_up("connection lost: silent, while the server answers on another one");
      stuck = channel;
      stuck_since = channel->silent_since();
    }
  }
  end();
}

void SilenceCheck::Impl::end() {
  asking = false;
  ++turn;
  if (!connection) return;
  connection->close();
  // Maybe one of its own handlers is running: it is destroyed a turn later.
  loop.post([old = std::shared_ptr<Connection>(std::move(connection))] {});
}

SilenceCheck::SilenceCheck(base::Loop& loop, ConnectOptions options, base::Duration silent)
    : impl_(std::make_shared<Impl>(loop, std::move(options), silent)) {}

SilenceCheck::~SilenceCheck() {
  impl_->end();
}

void SilenceCheck::look(const std::vector<std::shared_ptr<Channel>>& channels, base::TimePoint now) {
  Impl& impl = *impl_;
  if (impl.asking) {
    const auto channel = impl.asked_after.lock();
    // A server that does not answer here either is busy or gone. It is asked anew as long as the channel is silent.
    if (!channel || !impl.is_silent(*channel, now) || now - impl.asked_at >= 2 * impl.silent) impl.end();
  }
  // One is asked after once in `silent`, whatever came of it.
  if (impl.asking || now - impl.asked_at < impl.silent) return;
  for (const auto& channel : channels) {
    if (impl.is_silent(*channel, now)) return impl.begin(channel, now);
  }
}

}  // namespace keyferry::upstream
