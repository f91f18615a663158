#include "replies.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "main_thread.h"
#include "text.h"

namespace keyferry::large_object {
namespace {

Reply integers_reply(std::vector<long long> values) {
  return [values = std::move(values)](ValkeyModuleCtx* ctx) {
    ValkeyModule_ReplyWithArray(ctx, static_cast<long>(values.size()));
    for (const auto value : values) ValkeyModule_ReplyWithLongLong(ctx, value);
  };
}

Reply simple_reply(const char* text) {
  return [text](ValkeyModuleCtx* ctx) { ValkeyModule_ReplyWithSimpleString(ctx, text); };
}

// The first element is complete and followed by a byte that begins no RESP type.
Reply unreadable_reply() {
  return [](ValkeyModuleCtx* ctx) {
    ValkeyModule_ReplyWithArray(ctx, 2);
    ValkeyModule_ReplyWithSimpleString(ctx, "OK\r\n?this is not RESP");
  };
}

// Shapes that look the same whatever the command.
Reply common_shape(ReplyShape shape, std::uint64_t length) {
  const auto count = static_cast<long long>(length);
  switch (shape) {
    case ReplyShape::kNull:
      return null_reply();
    case ReplyShape::kInteger:
      return [count](ValkeyModuleCtx* ctx) { ValkeyModule_ReplyWithLongLong(ctx, count); };
    case ReplyShape::kOneElement:
      return integers_reply({count});
    case ReplyShape::kThreeElements:
      return integers_reply({count, 0, 0});
    case ReplyShape::kEmptyArray:
      return integers_reply({});
    case ReplyShape::kLowerCaseOk:
      return simple_reply("ok");
    case ReplyShape::kQueued:
      return simple_reply("QUEUED");
    case ReplyShape::kUnreadable:
      return unreadable_reply();
    default:
      return ok_reply();
  }
}

// An address of the family that the service does not have, port and host being the same in both.
std::vector<std::byte> other_family(const std::vector<std::byte>& address) {
  std::vector<std::byte> other;
  if (address.size() == sizeof(sockaddr_in)) {
    sockaddr_in v4{};
    std::memcpy(&v4, address.data(), sizeof v4);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = v4.sin_port;
    v6.sin6_addr = in6addr_loopback;
    other.resize(sizeof v6);
    std::memcpy(other.data(), &v6, sizeof v6);
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(1);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    other.resize(sizeof v4);
    std::memcpy(other.data(), &v4, sizeof v4);
  }
  return other;
}

}  // namespace

Reply error_reply(const char* text) {
  return [text](ValkeyModuleCtx* ctx) { ValkeyModule_ReplyWithError(ctx, text); };
}

Reply error_reply(std::string text) {
  return [text = std::move(text)](ValkeyModuleCtx* ctx) { ValkeyModule_ReplyWithError(ctx, text.c_str()); };
}

Reply null_reply() {
  return [](ValkeyModuleCtx* ctx) { ValkeyModule_ReplyWithNull(ctx); };
}

Reply wrong_type_reply() {
  return error_reply(VALKEYMODULE_ERRORMSG_WRONGTYPE);
}

Reply ok_reply() {
  return simple_reply("OK");
}

Reply get_reply(ReplyShape shape, std::uint64_t length, std::uint32_t crc, std::uint64_t window) {
  const auto count = static_cast<long long>(length);
  switch (shape) {
    case ReplyShape::kRegular:
      return integers_reply({count, crc});
    case ReplyShape::kThreeElements:
      return integers_reply({count, crc, 0});
    case ReplyShape::kNegativeCount:
      return integers_reply({-1, crc});
    case ReplyShape::kChecksumTooBig:
      return integers_reply({count, 1LL << 32});
    case ReplyShape::kTooLong:
      return integers_reply({static_cast<long long>(window) + 1, crc});
    default:
      return common_shape(shape, length);
  }
}

Reply set_reply(ReplyShape shape, std::uint64_t length) {
  return shape == ReplyShape::kRegular ? ok_reply() : common_shape(shape, length);
}

Reply hello_reply(ReplyShape shape, std::vector<std::vector<std::byte>> addresses) {
  std::vector<std::string> texts;
  for (const auto& address : addresses) texts.push_back(to_hex(address));
  switch (shape) {
    case ReplyShape::kRegular:
      break;
    case ReplyShape::kOddHex:
      texts.back().pop_back();
      break;
    case ReplyShape::kNotHex:
      texts.back().front() = 'x';
      break;
    case ReplyShape::kOtherFamily:
      texts.back() = to_hex(other_family(addresses.back()));
      break;
    case ReplyShape::kShortAddress:
      texts.back().resize(texts.back().size() / 4 * 2);
      break;
    default:
      return common_shape(shape, addresses.size());
  }
  return [texts = std::move(texts)](ValkeyModuleCtx* ctx) {
    ValkeyModule_ReplyWithArray(ctx, static_cast<long>(texts.size()));
    for (const auto& text : texts) ValkeyModule_ReplyWithStringBuffer(ctx, text.data(), text.size());
  };
}

void deliver(ValkeyModuleCtx* ctx, const FaultPlan& plan, Reply reply) {
  if (plan.delay_before_reply.count() == 0 && !plan.never_answer) {
    if (plan.drop_before_reply) {
      // Inside its own command a client is closed only after a reply.
      MainThread::post([id = ValkeyModule_GetClientId(ctx)] {
        ValkeyModule_DeauthenticateAndCloseClient(MainThread::context(), id);
      });
    } else {
      reply(ctx);
    }
    return;
  }
  if (const auto command = BlockedCommand::block(ctx)) deliver(command, plan, std::move(reply));
}

void deliver(const BlockedCommandRef& command, const FaultPlan& plan, Reply reply) {
  const auto finish = [command, drop = plan.drop_before_reply, silent = plan.never_answer, reply = std::move(reply)] {
    if (silent) {
      command->never_answer();
      return;
    }
    // Closed first: a client that is gone gets no reply.
    if (drop) ValkeyModule_DeauthenticateAndCloseClient(MainThread::context(), command->client_id());
    command->answer(reply);
  };
  if (plan.delay_before_reply.count() == 0) {
    finish();
  } else {
    MainThread::after(plan.delay_before_reply, finish);
  }
}

}  // namespace keyferry::large_object
