#pragma once

// Only for sources that already include Boost.Asio.

#include <boost/asio/ssl.hpp>

#include <memory>
#include <string>

#include "base/result.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// The authorities, certificate and key of `options`, loaded. Kept for the calling thread and loaded anew when one of
/// the files has changed (R57); reading the system's authorities at every connect would hold up the loop.
base::Result<std::shared_ptr<boost::asio::ssl::context>> tls_context(const TlsOptions& options);

/// Before the handshake: takes up the last session with `peer` that a connection of the same context had, and has the
/// next one remembered, so that a reconnect costs no public-key work (R56). The name that was asked of its certificate
/// must be a part of `peer`, for a resumed session is not checked again. A context is one thread's, so is this.
void resume_session(SSL* ssl, const std::string& peer);

}  // namespace keyferry::upstream
