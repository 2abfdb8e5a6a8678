// An OpenID provider for tests: the example of github.com/zitadel/oidc/v3, by TLS, with the clients
// and people of its arguments. Built in a copy of that module (tests/oidc_provider.py).
package main

import (
	"flag"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	issuer := flag.String("issuer", "", "address of this provider")
	listen := flag.String("listen", "", "address to listen on")
	people := flag.String("people", "", "file with users")
	back := flag.String("back", "", "addresses to which browsers may be sent back")
	secret := flag.String("secret", "", "file with the secret of the clients")
	certificate := flag.String("certificate", "", "PEM")
	key := flag.String("key", "", "PEM")
	flag.Parse()
	users, err := storage.StoreFromFile(*people)
	if err != nil {
		log.Fatal(err)
	}
	word, err := storage.SecretOfFile(*secret)
	if err != nil {
		log.Fatal(err)
	}
	addresses := strings.Split(*back, ",")
	storage.RegisterClients(
		storage.PageClient("corral", word, false, addresses...),
		storage.PageClient("corral-claims", word, true, addresses...),
		storage.NativeClient("corral-public", addresses...),
	)
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	router := exampleop.SetupServer(*issuer, storage.NewStorage(users), logger, false)
	log.Fatal(http.ListenAndServeTLS(*listen, *certificate, *key, router))
}
