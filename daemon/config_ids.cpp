#include "daemon/config_ids.h"

#include <grp.h>
#include <pwd.h>

#include <array>
#include <charconv>

namespace keyferry::daemon {

namespace {

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// An entry with its strings; a longer one is no user that anybody has.
using Room = std::array<char, 64 * 1024>;

}  // namespace

std::optional<std::uint32_t> uid_of(const std::string& text) {
  if (const auto value = number(text)) return value;
  static thread_local Room room;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(text.c_str(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return found->pw_uid;
}

std::optional<std::uint32_t> gid_of(const std::string& text) {
  if (const auto value = number(text)) return value;
  static thread_local Room room;
  group entry{};
  group* found = nullptr;
  if (::getgrnam_r(text.c_str(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return found->gr_gid;
}

std::optional<UserByUid> parse_user_by_uid(std::string_view text) {
  const std::size_t first = text.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : text.find(' ', first + 1);
  if (second == std::string_view::npos || second == first + 1 || second + 1 == text.size()) return std::nullopt;
  const auto uid = uid_of(std::string(text.substr(0, first)));
  if (!uid) return std::nullopt;
  return UserByUid{*uid, std::string(text.substr(first + 1, second - first - 1)), std::string(text.substr(second + 1))};
}

}  // namespace keyferry::daemon
