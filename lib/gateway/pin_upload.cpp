#include "gateway/pin_upload.h"

#include "gateway/session.h"

namespace keyferry::gateway {

namespace {

constexpr std::size_t kReadBytes = 256 * 1024;

}  // namespace

PinUpload::PinUpload(Session& session, std::shared_ptr<Pin> pin, SlotTag tag, PinPlan plan)
    : Operation(session), pin_(std::move(pin)), tag_(tag), plan_(std::move(plan)) {}
PinUpload::~PinUpload() = default;

void PinUpload::start() {
  const std::size_t offset = session_.parser().body_offset();
  silent_ = pin_->silence() != Pin::Silence::kNone;
  if (silent_) {
    if (pin_->silence() == Pin::Silence::kNext) pin_->be_silent(Pin::Silence::kNone);
    pin_->append(session_.input().substr(0, offset));
  } else {
    pin_->send(session_.input().substr(0, offset), tag_, std::move(plan_));
  }
  session_.consume_input(offset);
  session_.parser().begin_stream();
  pass_on();
}

void PinUpload::pass_on() {
  if (session_.closed() || pin_->state() != Pin::State::kReady) return session_.operation_done(*this);
  const resp::RequestParser::StreamStep step = session_.parser().stream(session_.input());
  if (step.error) {
    // Half a command is on the connection: it ends with the client.
    session_.close("a large command broke off: " + std::string(session_.parser().error()));
    return;
  }
  pin_->append(session_.input().substr(0, step.consumed));
  session_.consume_input(step.consumed);
  if (step.finished) {
    if (silent_) session_.finish_reply(tag_);
    session_.parser().next();
    session_.input_done();
    return session_.operation_done(*this);
  }
  const auto go_on = [self = shared_from_this(), this] { pass_on(); };
  if (pin_->room()) return session_.read_input(kReadBytes, go_on);
  pin_->when_room(go_on);
}

void PinUpload::client_gone() {
  session_.operation_done(*this);
}

}  // namespace keyferry::gateway
