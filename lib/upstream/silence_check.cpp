#include "upstream/silence_check.h"

#include <algorithm>
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
      : loop(its_loop), options(std::move(its_options)), silent(its_silent) {
    // A server that is busy accepts no connection over RDMA, and the dial would be taken for RDMA's failure.
    if (options.rdma && !options.rdma->route->strict()) options.rdma.reset();
  }

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

  bool found_stuck_before(const std::shared_ptr<Channel>& channel);

  // The channel that is asked after, and since when.
  std::weak_ptr<Channel> asked_after;
  base::TimePoint asked_at{};
  bool asking = false;
  // Those that were found stuck, each with the silence that it was found in.
  struct Stuck {
    std::weak_ptr<Channel> channel;
    std::optional<base::TimePoint> since;
  };
  std::vector<Stuck> stuck;
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
      if (found_stuck_before(channel)) {
        channel->give_up("connection lost: silent, while the server answers on another one");
      } else {
        stuck.push_back({channel, channel->silent_since()});
      }
    }
  }
  end();
}

bool SilenceCheck::Impl::found_stuck_before(const std::shared_ptr<Channel>& channel) {
  std::erase_if(stuck, [](const Stuck& one) {
    const auto alive = one.channel.lock();
    return !alive || alive->silent_since() != one.since;
  });
  return std::any_of(stuck.begin(), stuck.end(), [&](const Stuck& one) { return one.channel.lock() == channel; });
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
  // Another one than last time, if there is: one that is held on purpose must not hide a dead one.
  const auto last = impl.asked_after.lock();
  std::shared_ptr<Channel> next;
  for (const auto& channel : channels) {
    if (impl.is_silent(*channel, now) && (next == nullptr || next == last)) next = channel;
  }
  if (next != nullptr) impl.begin(next, now);
}

}  // namespace keyferry::upstream
