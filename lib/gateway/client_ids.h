#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_directory.h"

namespace keyferry::gateway {

/// A whole number without a sign, as ids are written.
std::optional<std::uint64_t> id_of(std::string_view text);

/// The server's id in place of the gateway's; one that nobody has for a client without a connection of its own. What is
/// no number stays for the server to refuse.
std::string server_id_text(std::string_view text, const ClientDirectory& directory);

/// CLIENT TRACKING with REDIRECT: where the id stands among the arguments, which for the server is that of the
/// connection of a client that has one (a subscriber).
std::optional<std::size_t> redirect_place(std::span<const std::string_view> args);

/// CLIENT KILL where the server is to carry it out (in a transaction, on a dedicated listener): with the ids of the
/// connections that local clients have for themselves, so that it ends no other. `directory`'s ids are translated
/// unless the listener is `dedicated`, where they are the server's. The old form, with an address alone, stays.
std::vector<std::string> confined_kill(std::span<const std::string_view> args, const ClientDirectory& directory,
                                       bool dedicated);

/// A reply or push with `id` in place of the number above 0 behind the first `mark` in it, if it has one. As it is
/// if `id` is 0: a client of a dedicated listener.
std::string with_id(std::string bytes, std::string_view mark, std::uint64_t id);

/// What stands in front of the id in HELLO's reply, in CLIENT GETREDIR's, in CLIENT TRACKINGINFO's and in the push
/// tracking-redir-broken.
inline constexpr std::string_view kHelloId = "$2\r\nid\r\n:";
inline constexpr std::string_view kGetRedirId = ":";
inline constexpr std::string_view kTrackingInfoId = "$8\r\nredirect\r\n:";
inline constexpr std::string_view kBrokenRedirId = ">2\r\n$21\r\ntracking-redir-broken\r\n:";

}  // namespace keyferry::gateway
