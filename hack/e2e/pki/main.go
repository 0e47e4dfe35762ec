// Command pki writes what a cluster of one node needs to know itself: an authority, certificates of servers and clients, the keys
// of service accounts, and a kubeconfig for each client. Everything is valid for one day and for this cluster only.
//
//	pki FOLDER NODE ADDRESS PORT
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: pki FOLDER NODE ADDRESS PORT")
		os.Exit(2)
	}
	a := authority{folder: os.Args[1]}
	if err := a.all(os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "pki:", err)
		os.Exit(1)
	}
}

// authority signs; it has no certificate until its own was made.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         crypto.Signer
}

// subject is who a certificate is about, and under which names and addresses it is reached.
type subject struct {
	file  string
	name  pkix.Name
	hosts []string
}

// clients have a kubeconfig beside their certificate.
var clients = map[string]pkix.Name{
	"admin":                   {CommonName: "admin", Organization: []string{"system:masters"}},
	"kube-controller-manager": {CommonName: "system:kube-controller-manager"},
	"kube-scheduler":          {CommonName: "system:kube-scheduler"},
	"kube-proxy":              {CommonName: "system:kube-proxy"},
}

func (a *authority) all(node, address, port string) error {
	if err := os.MkdirAll(a.folder, 0o700); err != nil {
		return err
	}
	// The first one signs itself and all others.
	subjects := []subject{
		{"ca", pkix.Name{CommonName: "e2e"}, nil},
		{"apiserver", pkix.Name{CommonName: "kube-apiserver"}, []string{"127.0.0.1", "localhost", address, "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}},
		{"kubelet", pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, []string{node, address, "127.0.0.1"}},
		{"apiserver-kubelet", pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}, nil},
	}
	for file, name := range clients {
		subjects = append(subjects, subject{file, name, nil})
	}
	for _, s := range subjects {
		if err := a.issue(s); err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
	}
	accounts, err := a.newKey("accounts")
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return err
	}
	if err := a.write("accounts.pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	for _, file := range []string{"admin", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		if err := a.kubeconfig(file, port); err != nil {
			return err
		}
	}
	return nil
}

func (a *authority) write(name, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(a.folder, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (a *authority) newKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, a.write(file+".key", "PRIVATE KEY", der)
}

func (a *authority) issue(s subject) error {
	key, err := a.newKey(s.file)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: s.name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	first := a.certificate == nil
	if first {
		template.IsCA, template.KeyUsage = true, template.KeyUsage|x509.KeyUsageCertSign
		a.certificate, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	if first {
		if a.certificate, err = x509.ParseCertificate(der); err != nil {
			return err
		}
	}
	return a.write(s.file+".crt", "CERTIFICATE", der)
}

func (a *authority) kubeconfig(file, port string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: "https://127.0.0.1:%[1]s", certificate-authority: %[2]s/ca.crt}}]
users: [{name: %[3]s, user: {client-certificate: %[2]s/%[3]s.crt, client-key: %[2]s/%[3]s.key}}]
contexts: [{name: e2e, context: {cluster: e2e, user: %[3]s}}]
current-context: e2e
`, port, a.folder, file)
	return os.WriteFile(filepath.Join(a.folder, file+".kubeconfig"), []byte(text), 0o600)
}
