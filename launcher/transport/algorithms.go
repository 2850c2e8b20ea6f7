package transport

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// algorithms are ssh_config's choices, nil where it makes none.
type algorithms struct {
	ciphers, macs, kex []string
	hostKeys           *algorithmSpec
	userKeys           []string
	authorities        []string // of host certificates
	rsaBits            int      // of the shortest RSA host key to trust
}

// algorithmSpec is a list of ssh_config's: names and patterns that replace the default, or
// behind + are appended to it, behind - taken from it, behind ^ put in front.
type algorithmSpec struct {
	how   byte // '+', '-', '^', or 0
	names []string
}

func parseAlgorithms(value string) algorithmSpec {
	s := algorithmSpec{}
	if value != "" && strings.IndexByte("+-^", value[0]) >= 0 {
		s.how, value = value[0], value[1:]
	}
	s.names = strings.Split(value, ",")
	return s
}

// apply returns what a list makes of the defaults. What is not supported is left out.
func (s algorithmSpec) apply(defaults, supported []string) []string {
	var named []string
	for _, pattern := range s.names {
		for _, name := range supported {
			if matchPattern(pattern, name) && !slices.Contains(named, name) {
				named = append(named, name)
			}
		}
	}
	others := slices.DeleteFunc(slices.Clone(defaults), func(name string) bool { return slices.Contains(named, name) })
	switch s.how {
	case '+':
		named = slices.DeleteFunc(named, func(name string) bool { return slices.Contains(defaults, name) })
		return slices.Concat(defaults, named)
	case '-':
		return others
	case '^':
		return slices.Concat(named, others)
	}
	return named
}

// foreignAlgorithms are those of OpenSSH, in any version, that gorun has not got.
const foreignAlgorithms = `
	3des-cbc aes128-cbc aes192-cbc aes256-cbc aes192-gcm@openssh.com rijndael-cbc@lysator.liu.se blowfish-cbc cast128-cbc
	arcfour arcfour128 arcfour256 none
	hmac-md5 hmac-md5-96 hmac-sha1-96 hmac-ripemd160 hmac-ripemd160@openssh.com hmac-sha2-256-96 hmac-sha2-512-96
	umac-64@openssh.com umac-128@openssh.com umac-64-etm@openssh.com umac-128-etm@openssh.com hmac-md5-etm@openssh.com
	hmac-md5-96-etm@openssh.com hmac-sha1-etm@openssh.com hmac-sha1-96-etm@openssh.com hmac-ripemd160-etm@openssh.com
	diffie-hellman-group1-sha1 diffie-hellman-group14-sha1 diffie-hellman-group14-sha256 diffie-hellman-group16-sha512
	diffie-hellman-group18-sha512 diffie-hellman-group-exchange-sha1 diffie-hellman-group-exchange-sha256
	ecdh-sha2-nistp256 ecdh-sha2-nistp384 ecdh-sha2-nistp521 curve25519-sha256 curve25519-sha256@libssh.org
	sntrup4591761x25519-sha512@tinyssh.org sntrup761x25519-sha512 sntrup761x25519-sha512@openssh.com
	mlkem768x25519-sha256 mlkem768nistp256-sha256 mlkem1024nistp384-sha384
	ssh-dss ssh-dss-cert-v01@openssh.com ssh-dss-cert-v00@openssh.com ssh-rsa ssh-rsa-cert-v01@openssh.com ssh-rsa-cert-v00@openssh.com
	ecdsa-sha2-nistp256 ecdsa-sha2-nistp384 ecdsa-sha2-nistp521 ssh-ed25519 rsa-sha2-256 rsa-sha2-512
	sk-ssh-ed25519@openssh.com sk-ecdsa-sha2-nistp256@openssh.com webauthn-sk-ecdsa-sha2-nistp256@openssh.com
	sk-ssh-ed25519-cert-v01@openssh.com sk-ecdsa-sha2-nistp256-cert-v01@openssh.com webauthn-sk-ecdsa-sha2-nistp256-cert-v01@openssh.com
	ssh-xmss@openssh.com ssh-xmss-cert-v01@openssh.com null
`

// doubts says which names in a list neither gorun nor, as far as it knows, any ssh
// has. A newer one may; what is taken away need not exist.
func (s algorithmSpec) doubts(supported []string) (texts []string) {
	if s.how == '-' {
		return nil
	}
	all := slices.Concat(supported, strings.Fields(foreignAlgorithms))
	for _, pattern := range s.names {
		if slices.ContainsFunc(all, func(name string) bool { return matchPattern(pattern, name) }) {
			continue
		}
		text := fmt.Sprintf("unknown algorithm %q", cleanLine(pattern, 60))
		if like := nearest(pattern, all); like != "" {
			text += "; did you mean " + like + "?"
		}
		texts = append(texts, text)
	}
	return texts
}

// fillAlgorithms reads the directives about algorithms.
func (e *evaluation) fillAlgorithms(s *settings) *ConfigError {
	good, bad := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
	rsa := []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512}
	signing := slices.Concat([]string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}, rsa)
	users := slices.Concat(certAlgorithms(), []string{certName(ssh.KeyAlgoSKED25519), certName(ssh.KeyAlgoSKECDSA256)}, signing)
	a := &s.algorithms
	for _, list := range []struct {
		key                 string
		into                *[]string
		defaults, supported []string
	}{
		{"ciphers", &a.ciphers, good.Ciphers, slices.Concat(good.Ciphers, bad.Ciphers)},
		{"macs", &a.macs, good.MACs, slices.Concat(good.MACs, bad.MACs)},
		{"kexalgorithms", &a.kex, good.KeyExchanges, slices.Concat(good.KeyExchanges, bad.KeyExchanges)},
		{"pubkeyacceptedalgorithms", &a.userKeys, users, users},
		{"casignaturealgorithms", &a.authorities, signing, signing},
	} {
		d := e.values[list.key]
		if d == nil {
			continue
		}
		spec := parseAlgorithms(d.args[0])
		doubts := spec.doubts(list.supported)
		if *list.into = spec.apply(list.defaults, list.supported); len(*list.into) == 0 {
			return d.errorf("%s %s: gorun has none of these%s", keywords[list.key].name, d.args[0], strings.Join(append([]string{""}, doubts...), "; "))
		}
		for _, text := range doubts {
			s.doubts = append(s.doubts, d.errorf("%s: %s", keywords[list.key].name, text).Error())
		}
	}
	if a.authorities == nil {
		a.authorities = signing
	}
	if d := e.values["hostkeyalgorithms"]; d != nil {
		spec := parseAlgorithms(d.args[0])
		a.hostKeys = &spec
		for _, text := range spec.doubts(users) {
			s.doubts = append(s.doubts, d.errorf("HostKeyAlgorithms: %s", text).Error())
		}
	}
	d := e.values["requiredrsasize"]
	if d == nil {
		return nil
	}
	bits, err := strconv.Atoi(d.args[0])
	if err != nil {
		return d.errorf("bad RequiredRSASize %q", d.args[0])
	}
	a.rsaBits = bits
	return nil
}

// hostKeyAlgorithms orders what the server may choose from: it shows one key only, so
// those that known_hosts can vouch for come first (golang/go#29286), unless ssh_config
// gives an order of its own. The order of the rest is OpenSSH's.
func (a *algorithms) hostKeyAlgorithms(known []*knownKey) []string {
	algos := knownFirst(known)
	if a.hostKeys == nil {
		return algos
	}
	all := slices.Concat(certAlgorithms(), plainAlgorithms(), []string{ssh.KeyAlgoRSA})
	if a.hostKeys.how == '+' || a.hostKeys.how == '-' {
		return a.hostKeys.apply(algos, all)
	}
	return a.hostKeys.apply(slices.Concat(certAlgorithms(), plainAlgorithms()), all)
}

func certAlgorithms() []string {
	return []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	}
}

func plainAlgorithms() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
}

func knownFirst(known []*knownKey) []string {
	var algos, first []string
	for _, k := range known {
		switch k.marker {
		case markCA:
			algos = certAlgorithms()
		case "":
			first = append(first, k.algo)
		}
	}
	for _, isKnown := range []bool{true, false} {
		for _, a := range plainAlgorithms() {
			if slices.Contains(first, keyType(a)) == isKnown {
				algos = append(algos, a)
			}
		}
	}
	return algos
}

// keyType is the type of key that a signature algorithm uses.
func keyType(algo string) string {
	if algo == ssh.KeyAlgoRSASHA256 || algo == ssh.KeyAlgoRSASHA512 {
		return ssh.KeyAlgoRSA
	}
	return algo
}

// accepts reports whether a user's key may be offered, and with which signature
// algorithms, of those that it has.
func (a *algorithms) accepts(pub ssh.PublicKey, has []string) []string {
	if a.userKeys == nil {
		return has
	}
	return slices.DeleteFunc(slices.Clone(has), func(algo string) bool {
		name := algo
		if _, ok := pub.(*ssh.Certificate); ok {
			name = cmp.Or(certName(algo), algo)
		}
		return !slices.Contains(a.userKeys, name)
	})
}

// certName is the name of a signature algorithm in a certificate.
func certName(algo string) string {
	if name, ok := strings.CutSuffix(algo, "@openssh.com"); ok {
		return name + "-cert-v01@openssh.com"
	}
	return algo + "-cert-v01@openssh.com"
}
