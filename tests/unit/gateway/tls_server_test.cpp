#include "gateway/tls_server.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/test_certificates.h"

namespace keyferry::gateway {

namespace {

std::string failure(const TlsServerFiles& files) {
  try {
    const TlsServer server(files);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(TlsServer, FilesThatCannotBeLoadedAreNamed) {
  const test::TestCertificates certificates("DNS:localhost");
  EXPECT_EQ(failure({certificates.cert(), certificates.key(), ""}), "");
  EXPECT_EQ(failure({certificates.cert(), certificates.key(), certificates.ca()}), "");
  EXPECT_TRUE(failure({"/nowhere.crt", certificates.key(), ""})
                  .starts_with("listen[].tls: cannot load the certificate /nowhere.crt: "));
  EXPECT_TRUE(failure({certificates.cert(), "/nowhere.key", ""})
                  .starts_with("listen[].tls: cannot load the key /nowhere.key: "));
  EXPECT_TRUE(failure({certificates.cert(), certificates.key(), "/nowhere.ca"})
                  .starts_with("listen[].tls: cannot load the authorities /nowhere.ca: "));
}

TEST(TlsServer, AKeyOfAnotherCertificateIsRefused) {
  const test::TestCertificates one("DNS:localhost");
  const test::TestCertificates other("DNS:localhost");
  EXPECT_TRUE(
      failure({one.cert(), other.key(), ""}).starts_with("listen[].tls: cannot load the key " + other.key() + ": "));
}

}  // namespace

}  // namespace keyferry::gateway
