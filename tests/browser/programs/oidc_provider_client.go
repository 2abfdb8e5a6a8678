package storage

import (
	"os"
	"strings"
)

// SecretOfFile is the first line of a file.
func SecretOfFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.SplitN(string(data), "\n", 2)[0], err
}

// PageClient is a client with a secret; claims are in its ID token or in userinfo alone.
func PageClient(id, secret string, inToken bool, redirectURIs ...string) *Client {
	client := WebClient(id, secret, redirectURIs...)
	client.idTokenUserinfoClaimsAssertion = inToken
	client.postLogoutRedirectURIGlobs = []string{"https://*/"}
	return client
}
