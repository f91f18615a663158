#include "gateway/errands.h"

#include <spdlog/spdlog.h>

namespace keyferry::gateway {

void Errands::run(std::shared_ptr<upstream::Channel> on, const std::string& command, std::string_view what) {
  upstream::Channel& channel = *on;
  under_way_.emplace(++next_, Errand{std::move(on), what});
  channel.send(command, *this, next_, upstream::Access::kWrites);
}

bool Errands::on_reply(std::uint64_t tag, std::string_view bytes, bool last) {
  if (bytes.starts_with('-')) {
    const auto found = under_way_.find(tag);
    if (found != under_way_.end())
      spdlog::warn("{}: the server says {}", found->second.what, bytes.substr(1, bytes.find_first_of("\r\n") - 1));
  }
  if (last) under_way_.erase(tag);
  return true;
}

void Errands::on_reply_lost(std::uint64_t tag, upstream::Lost, bool, std::string_view reason) {
  const auto found = under_way_.find(tag);
  if (found == under_way_.end()) return;
  spdlog::warn("{}: {}", found->second.what, reason);
  under_way_.erase(found);
}

}  // namespace keyferry::gateway
