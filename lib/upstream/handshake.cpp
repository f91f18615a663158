#include "upstream/handshake.h"

#include "base/bytes.h"
#include "resp/decode.h"
#include "resp/writer.h"
#include "upstream/whereabouts.h"

namespace keyferry::upstream {

namespace {

// The longest answer is HELLO's, with a line for each module.
constexpr std::size_t kLongestAnswer = 64 * base::kKiB;

}  // namespace

Handshake::Handshake(const ConnectOptions& options, From from) {
  if (options.bare) return;
  only_primary_ = options.where && options.where->sentinels() != nullptr;
  if (from == From::kReset) {
    resp::append_command(request_, {"RESET"});
    steps_.push_back({"RESET", Kind::kMust});
  }
  if (!options.chooser.empty()) {
    if (!options.chooser_password.empty()) {
      resp::append_command(request_, {"AUTH", options.chooser, options.chooser_password});
      steps_.push_back({"AUTH", Kind::kTry});
    }
    resp::append_command(request_, {"SELECT", std::to_string(options.database)});
    steps_.push_back({"SELECT", Kind::kChosen});
  }
  const bool password = options.authenticate || !options.password.empty();
  if (options.protocol == resp::Protocol::kResp3) {
    if (password) {
      resp::append_command(request_, {"HELLO", "3", "AUTH", options.user, options.password});
    } else {
      resp::append_command(request_, {"HELLO", "3"});
    }
    steps_.push_back({"HELLO 3", Kind::kGreet});
  } else {
    if (password) {
      request_.append(options.auth_command());
      steps_.push_back({"AUTH", Kind::kMust});
    }
    if (only_primary_) {
      resp::append_command(request_, {"HELLO", "2"});
      steps_.push_back({"HELLO 2", Kind::kGreet});
    }
  }
  if (options.database != 0) {
    resp::append_command(request_, {"SELECT", std::to_string(options.database)});
    steps_.push_back({"SELECT", Kind::kDatabase});
  }
  if (options.announce) {
    resp::append_command(request_, {"CLIENT", "SETINFO", "LIB-NAME", "keyferry"});
    resp::append_command(request_, {"CLIENT", "SETINFO", "LIB-VER", KEYFERRY_VERSION});
    steps_.push_back({"CLIENT SETINFO", Kind::kMay});
    steps_.push_back({"CLIENT SETINFO", Kind::kMay});
  }
  resp::append_command(request_, {"CLIENT", "ID"});
  steps_.push_back({"CLIENT ID", Kind::kId});
}

Handshake::State Handshake::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto step = scanner_.scan(bytes);
    if (step.event == resp::ReplyScanner::Step::Event::kError) {
      fail("handshake: the server does not speak RESP: " + std::string(scanner_.error()));
      return State::kFailed;
    }
    frame_.append(bytes.substr(0, step.consumed));
    bytes.remove_prefix(step.consumed);
    if (frame_.size() > kLongestAnswer || scanner_.largest_body() > kLongestAnswer) {
      fail("handshake: the server's answer is longer than 64 KiB");
      return State::kFailed;
    }
    if (step.event == resp::ReplyScanner::Step::Event::kNeedMore) break;
    if (scanner_.type() != '>') {
      if (next_ == steps_.size()) {
        fail("handshake: the server sent more answers than it was asked for");
        return State::kFailed;
      }
      if (!answered(steps_[next_++])) return State::kFailed;
    }
    frame_.clear();
  }
  return next_ == steps_.size() && scanner_.at_frame_start() ? State::kDone : State::kMore;
}

bool Handshake::answered(const Step& step) {
  const resp::DecodeResult reply = resp::decode(frame_);
  if (!reply.ok()) return fail("handshake: unreadable answer to " + std::string(step.name) + ": " + reply.error);
  if (!reply.value.is_error()) {
    if (step.kind == Kind::kId && reply.value.kind == resp::Value::Kind::kInteger && reply.value.integer > 0) {
      client_id_ = static_cast<std::uint64_t>(reply.value.integer);
    }
    if (step.kind == Kind::kChosen) chosen_ = true;
    return step.kind != Kind::kGreet || !only_primary_ || check_role(reply.value);
  }
  if (step.kind == Kind::kTry || step.kind == Kind::kChosen || (step.kind == Kind::kDatabase && chosen_)) return true;
  last_refusal_ = reply.value.text;
  if (last_refusal_.starts_with("NOAUTH")) {
    return fail(
        "AUTH needed: the server wants a password and none is configured (upstream.password_file): " + last_refusal_,
        kLoginNeeded);
  }
  if (step.kind == Kind::kMay || step.kind == Kind::kId) return true;
  // HELLO 3 carries AUTH.
  const bool password = last_refusal_.starts_with("WRONGPASS");
  return fail(std::string(password ? "AUTH" : step.name) + " refused: " + last_refusal_,
              password ? kLoginRefused : kTurnedAway);
}

/// A list of names and values in either protocol. A server that says nothing of its role is taken at its word.
bool Handshake::check_role(const resp::Value& hello) {
  for (std::size_t i = 0; i + 1 < hello.children.size(); i += 2) {
    if (hello.children[i].text != "role" || hello.children[i + 1].text == "master") continue;
    return fail("the server is no primary but a " + hello.children[i + 1].text, kNotPrimary);
  }
  return true;
}

bool Handshake::fail(std::string text, int code) {
  error_ = std::move(text);
  error_code_ = code;
  return false;
}

}  // namespace keyferry::upstream
