#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace keyferry::daemon {

/// A user of this host, by name or number; nothing if there is no such name.
std::optional<std::uint32_t> uid_of(const std::string& text);
/// The same for a group.
std::optional<std::uint32_t> gid_of(const std::string& text);

/// One item of listen[].user_by_uid: "UID USER PASSWORD_FILE".
struct UserByUid {
  std::uint32_t uid = 0;
  std::string user;
  std::string password_file;
};
std::optional<UserByUid> parse_user_by_uid(std::string_view text);

}  // namespace keyferry::daemon
