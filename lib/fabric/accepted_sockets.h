#pragma once

#include <dirent.h>

#include <cstddef>
#include <memory>
#include <string_view>

namespace keyferry::fabric {

/// Makes closing an endpoint of a software provider safe. Its listener accepts a connection in one pass over the
/// completion queue and reads the request that comes on it in a later one; closing the endpoint forgets such a
/// connection, and the next pass that finds bytes or an end on it uses what the endpoint has freed. Releases up to 2.6
/// do so, 1.17's `net` too (mended upstream in August 2026 by pull request 12709 of ofiwg/libfabric). A server that is
/// killed while its lanes connect leaves just that. So right before an endpoint is closed, the connections that it has
/// accepted and from which nothing was read are closed here, which takes them off the provider's epoll set: the
/// provider never hears of them again. Per connection some 40 bytes of its heap stay lost.
///
/// The fabric thread alone uses it; nobody else makes or closes sockets of that name, so what it finds stays what it
/// is.
class AcceptedSockets {
 public:
  /// Throws std::runtime_error if /proc can't be read, without which the connections can't be found.
  AcceptedSockets();

  /// `name`: the endpoint's, as fi_getname gave it. Returns how many it closed. What was read from is a connection of
  /// the endpoint, which the provider closes itself.
  std::size_t close_unread(std::string_view name);

 private:
  struct Closer {
    void operator()(DIR* files) const { ::closedir(files); }
  };
  /// Kept open, for there may be no descriptor left when it is needed.
  std::unique_ptr<DIR, Closer> files_;
};

}  // namespace keyferry::fabric
