# What a newcomer types. Longer logic is in scripts/.
GO ?= go
PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share

.PHONY: build run install docs test test-slow soak fuzz bench clean

build: # static programs, in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/ ./cmd/gorun ./examples/...

run: build # an AllReduce over 4 ranks on this machine
	bin/gorun -np 4 bin/allreduce

install: build # gorun, its manual page and shells' completion: make install PREFIX=$HOME/.local
	install -D -t $(DESTDIR)$(PREFIX)/bin bin/gorun
	install -D -m 644 -t $(SHARE)/man/man1 docs/gorun.1
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	bin/gorun --completion bash >$(SHARE)/bash-completion/completions/gorun
	bin/gorun --completion zsh >$(SHARE)/zsh/site-functions/_gorun
	bin/gorun --completion fish >$(SHARE)/fish/vendor_completions.d/gorun.fish

docs: # the flags in docs/gorun.1, from their table
	$(GO) test ./cmd/gorun -run TestManualIsMadeFromTheTable -update

test: # all but what is slow; installs by apt what it needs
	scripts/test quick

test-slow: # what `make test` leaves out
	scripts/test slow

soak: # five hundred jobs in a row, and what they leave
	SOAK=500 $(GO) test -v -run TestSlowSoak -timeout 60m ./e2e

fuzz: # every fuzz target for a minute: make fuzz FUZZTIME=10m
	scripts/test fuzz $(or $(FUZZTIME),60s)

bench: # launch figures beside other launchers', and on thousands of simulated hosts
	scripts/bench-launch
	scripts/bench-scale
	scripts/bench-preflight

clean:
	rm -rf bin
