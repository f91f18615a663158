#include "upstream/tls_context.h"

#include <boost/asio.hpp>
#include <openssl/err.h>

#include <array>
#include <map>
#include <vector>

#include "base/file_mark.h"

namespace keyferry::upstream {

namespace ssl = boost::asio::ssl;

namespace {

struct Kept {
  std::string ca, cert, key;
  std::array<base::FileMark, 3> marks;
  std::shared_ptr<ssl::context> context;
};

struct FreeSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using Session = std::unique_ptr<SSL_SESSION, FreeSession>;

/// The last session with each peer; belongs to its SSL_CTX, which every connection of it keeps alive.
struct SessionCache {
  std::map<std::string, Session> last;
};

void free_cache(void*, void* cache, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<SessionCache*>(cache);
}

int cache_index() {
  static const int kIndex = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_cache);
  return kIndex;
}

int slot_index() {
  static const int kIndex = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return kIndex;
}

/// OpenSSL has a session (with TLS 1.3 some time after the handshake). A copy is kept: a connection that is closed
/// without a farewell spoils its own. 0: OpenSSL keeps the reference that it came with.
int remember(SSL* ssl, SSL_SESSION* session) {
  auto* slot = static_cast<Session*>(SSL_get_ex_data(ssl, slot_index()));
  if (slot != nullptr) slot->reset(SSL_SESSION_dup(session));
  return 0;
}

void remember_sessions(SSL_CTX* context) {
  SSL_CTX_set_ex_data(context, cache_index(), new SessionCache);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, remember);
}

base::Error cannot_load(const char* what, const std::string& path, const boost::system::error_code& error) {
  return {std::string("cannot load the ") + what + " " + path + ": " + error.message(), error.value()};
}

base::Result<std::shared_ptr<ssl::context>> load(const TlsOptions& options) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  boost::system::error_code error;
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  remember_sessions(context->native_handle());
  context->set_verify_mode(ssl::verify_peer, error);
  if (options.ca.empty()) {
    context->set_default_verify_paths(error);
    if (error) return cannot_load("authorities of the system", "", error);
  } else {
    context->load_verify_file(options.ca, error);
    if (error) return cannot_load("authorities", options.ca, error);
  }
  if (options.cert.empty() != options.key.empty()) {
    return base::Error{"a client certificate needs both a certificate and a key file"};
  }
  if (!options.cert.empty()) {
    context->use_certificate_chain_file(options.cert, error);
    if (error) return cannot_load("client certificate", options.cert, error);
    context->use_private_key_file(options.key, ssl::context::pem, error);
    if (error) return cannot_load("client key", options.key, error);
  }
  return context;
}

}  // namespace

base::Result<std::shared_ptr<ssl::context>> tls_context(const TlsOptions& options) {
  // As many entries as the configuration has different sets of files.
  thread_local std::vector<Kept> kept;
  const std::array<base::FileMark, 3> marks{base::FileMark::of(options.ca), base::FileMark::of(options.cert),
                                            base::FileMark::of(options.key)};
  Kept* place = nullptr;
  for (Kept& entry : kept) {
    if (entry.ca == options.ca && entry.cert == options.cert && entry.key == options.key) place = &entry;
  }
  if (place != nullptr && place->marks == marks) return place->context;
  auto loaded = load(options);
  ERR_clear_error();
  if (!loaded) return loaded;
  if (place == nullptr) place = &kept.emplace_back(Kept{options.ca, options.cert, options.key, {}, {}});
  place->marks = marks;
  place->context = loaded.value();
  return loaded;
}

void resume_session(SSL* ssl, const std::string& peer) {
  auto* cache = static_cast<SessionCache*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), cache_index()));
  if (cache == nullptr) return;
  Session& slot = cache->last[peer];
  SSL_set_ex_data(ssl, slot_index(), &slot);
  if (slot) SSL_set_session(ssl, slot.get());
}

}  // namespace keyferry::upstream
