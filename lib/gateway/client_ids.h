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

/// CLIENT KILL, UNBLOCK and TRACKING with REDIRECT in the words of the server, which is to carry them out; nothing for
/// other commands. `directory`'s ids are translated unless the listener is `dedicated`, where they are the server's.
/// KILL gets the ids of the connections that local clients have for themselves, so that it ends no other (R7); its old
/// form, with an address alone, becomes the new one, whose reply old_kill_reply() translates.
std::optional<std::vector<std::string>> in_server_words(std::span<const std::string_view> args,
                                                        const ClientDirectory& directory, bool dedicated);

/// CLIENT KILL addr:port.
bool is_old_kill(std::span<const std::string_view> args);
/// What it is answered with, for how many the new form has ended. Other replies stay.
std::string old_kill_reply(std::string reply);

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
