package natslog

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificate writes a certificate that signs itself, and its key, and returns their paths.
func certificate(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// tlsServer speaks as much of the protocol as a client needs to count as connected, and tells whose certificate it saw.
func tlsServer(t *testing.T, config *tls.Config) (url string, clients <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	seen := make(chan string, 1)
	go func() {
		for {
			plain, err := listener.Accept()
			if err != nil {
				return
			}
			go greet(plain, config, seen)
		}
	}()
	return "nats://" + listener.Addr().String(), seen
}

func greet(plain net.Conn, config *tls.Config, seen chan<- string) {
	defer plain.Close()
	fmt.Fprint(plain, `INFO {"server_id":"s","version":"2.15.0","proto":1,"max_payload":1048576,"tls_required":true,"tls_verify":true}`+"\r\n")
	secured := tls.Server(plain, config)
	if secured.Handshake() != nil {
		return
	}
	select {
	case seen <- secured.ConnectionState().PeerCertificates[0].Subject.CommonName:
	default:
	}
	for lines := bufio.NewScanner(secured); lines.Scan(); {
		if lines.Text() == "PING" {
			fmt.Fprint(secured, "PONG\r\n")
		}
	}
}

// TestConnectWithCertificates connects to a server that wants to know its clients by their certificates.
func TestConnectWithCertificates(t *testing.T) {
	serverCert, serverKey := certificate(t, "server")
	clientCert, clientKey := certificate(t, "client")
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	raw, err := os.ReadFile(clientCert)
	if err != nil || !pool.AppendCertsFromPEM(raw) {
		t.Fatal(err)
	}
	url, clients := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12})
	nc, err := Connect(ConnectOptions{URL: url, Name: "test", CAFile: serverCert, CertFile: clientCert, KeyFile: clientKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	select {
	case name := <-clients:
		if name != "client" {
			t.Errorf("the server saw the certificate of %q", name)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no connection with a certificate that both sides trust")
	}
}
