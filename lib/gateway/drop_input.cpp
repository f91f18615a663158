#include "gateway/drop_input.h"

#include "gateway/session.h"

namespace keyferry::gateway {

namespace {

constexpr std::size_t kReadBytes = 256 * 1024;

}  // namespace

std::shared_ptr<DropInput> DropInput::whole_command(Session& session) {
  session.consume_input(session.parser().body_offset());
  return after_body_bytes(session, 0);
}

std::shared_ptr<DropInput> DropInput::after_body_bytes(Session& session, std::uint64_t taken) {
  session.parser().begin_stream(taken);
  return rest_of_stream(session);
}

std::shared_ptr<DropInput> DropInput::rest_of_stream(Session& session) {
  return std::make_shared<DropInput>(session);
}

void DropInput::start() {
  drop();
}

void DropInput::drop() {
  const resp::RequestParser::StreamStep step = session_.parser().stream(session_.input());
  session_.consume_input(step.consumed);
  if (step.error) {
    session_.protocol_error(session_.parser().error());
    return session_.operation_done(*this);
  }
  if (step.finished) {
    session_.parser().next();
    session_.input_done();
    return session_.operation_done(*this);
  }
  session_.read_input(kReadBytes, [self = shared_from_this(), this] { drop(); });
}

void DropInput::client_gone() {
  session_.operation_done(*this);
}

}  // namespace keyferry::gateway
