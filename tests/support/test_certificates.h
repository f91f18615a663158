#pragma once

#include <string>

namespace keyferry::test {

/// Certificates for tests of TLS, made on the spot in a folder that goes with the object: an authority, a certificate
/// signed by it, and a second authority that signed nothing. All are PEM files. Throws std::runtime_error when OpenSSL
/// or the disk refuses.
class TestCertificates {
 public:
  /// `names`: what the certificate is for, as in OpenSSL's subjectAltName ("DNS:localhost,IP:127.0.0.1").
  explicit TestCertificates(const std::string& names);
  ~TestCertificates();
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  std::string ca() const { return folder_ + "/ca.crt"; }
  std::string other_ca() const { return folder_ + "/other.crt"; }
  std::string cert() const { return folder_ + "/server.crt"; }
  std::string key() const { return folder_ + "/server.key"; }

 private:
  std::string folder_;
};

}  // namespace keyferry::test
