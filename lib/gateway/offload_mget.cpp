#include "gateway/offload_mget.h"

#include <algorithm>
#include <utility>

#include "gateway/blob_get.h"
#include "gateway/continuation.h"
#include "gateway/session.h"
#include "resp/decode.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

// Keys that are asked for at a time, so that one command does not fill a shared channel.
constexpr std::size_t kBatch = 256;
constexpr std::size_t kLongestLine = 4 * 1024;

}  // namespace

/// One object of the reply, which a BlobGet delivers.
class OffloadMget::Element final : public Continuation {
 public:
  explicit Element(std::shared_ptr<OffloadMget> whole) : whole_(std::move(whole)) {}

  Judgement judge(std::string_view line, transfer::Loan&) override {
    if (line.starts_with("-WRONGTYPE")) {
      // It is a string by now: fetched like one.
      whole_->lengths_[whole_->next_] = kNoObject;
    } else {
      whole_->error_.assign(line.substr(1, line.find_first_of("\r\n") - 1));
    }
    return {Judgement::Kind::kHandOver, {}, whole_};
  }
  void begins() override { whole_->begin_reply(); }
  std::shared_ptr<Operation> ended(bool delivered) override {
    if (!delivered) return nullptr;
    ++whole_->next_;
    return whole_;
  }
  std::shared_ptr<Operation> failed(std::string& text) override {
    whole_->error_ = text;
    return whole_;
  }

 private:
  std::shared_ptr<OffloadMget> whole_;
};

OffloadMget::OffloadMget(Session& session, SlotTag tag, std::vector<Key> keys)
    : Operation(session), tag_(tag), keys_(std::move(keys)), lengths_(keys_.size(), kNoObject) {}
OffloadMget::~OffloadMget() = default;

void OffloadMget::start() {
  if (!error_.empty()) return fail(error_);
  if (next_ == keys_.size()) {
    session_.finish_reply(tag_);
    return end();
  }
  if (next_ == asked_) return ask_batch();
  if (lengths_[next_] == kNoObject) return fetch_run();
  fetch_object();
}

void OffloadMget::ask_batch() {
  const std::size_t from = asked_;
  asked_ = std::min(keys_.size(), from + kBatch);
  channel_ = session_.channel(upstream::Access::kReads);
  for (std::size_t i = from; i < asked_; ++i) {
    if (!keys_[i].offloaded) continue;
    std::string command;
    resp::append_command(command, {"BLOB.INFO", keys_[i].name, "LEN"});
    ++owed_;
    channel_->send(command, *this, i);
  }
  if (owed_ == 0) start();
}

bool OffloadMget::on_reply(std::uint64_t tag, std::string_view bytes, bool last) {
  const auto keep = shared_from_this();
  if (last) --owed_;
  if (gone_ || ended_) {
    if (owed_ == 0) end();
    return true;
  }
  if (fetching_) {
    run_replied(bytes, last);
  } else {
    info_replied(static_cast<std::size_t>(tag), bytes, last);
  }
  return !paused_;
}

void OffloadMget::info_replied(std::size_t index, std::string_view bytes, bool last) {
  if (reply_.size() + bytes.size() <= kLongestLine) reply_.append(bytes);
  if (!last) return;
  const resp::Value info = resp::decode(std::exchange(reply_, {})).value;
  if (info.kind == resp::Value::Kind::kInteger && info.integer > 0)
    lengths_[index] = static_cast<std::uint64_t>(info.integer);
  // To a user who may not ask MGET would say that an object is not there.
  if (info.is_error() && !info.text.starts_with("WRONGTYPE") && info.text.find("unknown") == std::string::npos)
    error_ = info.text;
  if (owed_ == 0) start();
}

void OffloadMget::fetch_run() {
  run_end_ = next_;
  std::vector<std::string_view> words{"MGET"};
  while (run_end_ < asked_ && lengths_[run_end_] == kNoObject) words.push_back(keys_[run_end_++].name);
  std::string command;
  resp::append_command(command, words);
  fetching_ = true;
  in_elements_ = false;
  owed_ = 1;
  channel_ = session_.channel(upstream::Access::kReads);
  channel_->send(command, *this, 0);
}

void OffloadMget::run_replied(std::string_view bytes, bool last) {
  if (!in_elements_) {
    reply_.append(bytes);
    const std::size_t line = reply_.find("\r\n");
    if (line == std::string::npos) return;
    if (!reply_.starts_with('*')) {
      if (last) fail(std::string_view(std::exchange(reply_, {})).substr(1, line - 1));
      return;
    }
    in_elements_ = true;
    begin_reply();
    const std::string rest = std::exchange(reply_, {}).substr(line + 2);
    if (!rest.empty()) session_.reply(tag_, rest);
  } else {
    session_.reply(tag_, bytes);
  }
  if (last) {
    fetching_ = false;
    next_ = run_end_;
    return start();
  }
  paused_ = session_.output_full() && channel_->retired();
}

void OffloadMget::fetch_object() {
  auto get = std::make_shared<BlobGet>(session_, tag_, keys_[next_].name);
  get->length_is(lengths_[next_]);
  get->stay_alone();
  get->continue_to(std::make_shared<Element>(std::static_pointer_cast<OffloadMget>(shared_from_this())));
  session_.classify(tag_, CommandClass::kTransferGet);
  session_.continue_with(*this, std::move(get));
}

void OffloadMget::begin_reply() {
  if (std::exchange(begun_, true)) return;
  std::string header;
  resp::append_array_header(header, keys_.size());
  session_.reply(tag_, header);
}

/// `text` starts with its code.
void OffloadMget::fail(std::string_view text) {
  ended_ = true;
  if (begun_ && !session_.retract_reply(tag_)) {
    // A part of the reply has left: nothing that could follow would be understood (promise 1).
    session_.close("the rest of a reply was lost: " + std::string(text));
  } else {
    session_.reply_error(tag_, text);
  }
  if (owed_ == 0) end();
}

void OffloadMget::on_reply_lost(std::uint64_t, upstream::Lost, bool, std::string_view reason) {
  const auto keep = shared_from_this();
  paused_ = false;
  --owed_;
  if (!gone_ && !ended_) return fail("ERR keyferry: " + std::string(reason) + "; nothing was read");
  if (owed_ == 0) end();
}

void OffloadMget::end() {
  session_.operation_done(*this);
}

void OffloadMget::output_drained() {
  if (std::exchange(paused_, false)) channel_->resume();
}

void OffloadMget::client_gone() {
  gone_ = true;
  output_drained();
  // Not owed anything: it only waits for its turn, which does not come any more.
  if (owed_ == 0 && !ended_) end();
}

}  // namespace keyferry::gateway
