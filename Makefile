# Each goal does all its own set-up: on a fresh Debian or Ubuntu, `make demo` is all it takes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build static packages install uninstall test demo fix clean

help: ## Shows this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

build: ## Builds target/release/penstock
	@scripts/setup.sh build
	@. scripts/env.sh; cargo build --release --locked --package penstock

static: ## Builds a penstock that needs no C library of its host, for copies over ssh
	@scripts/setup.sh build
	@. scripts/env.sh; host=$$(rustc -vV | sed -n 's/^host: //p'); \
		RUSTFLAGS='-C target-feature=+crt-static' CARGO_PROFILE_RELEASE_STRIP=symbols \
		cargo build --release --locked --package penstock --target "$$host" && \
		echo "target/$$host/release/penstock"

packages: ## Builds all of a release into target/packages: deb, rpm, archives, wheel, checksums
	@scripts/setup.sh packages
	@. scripts/env.sh; cargo xtask package

PREFIX ?= /usr/local
install: ## Installs what `make build` has built, below PREFIX (/usr/local)
	@scripts/install.sh install '$(PREFIX)' '$(DESTDIR)'

uninstall: ## Removes what `make install` has installed; configuration and data stay
	@scripts/install.sh uninstall '$(PREFIX)' '$(DESTDIR)'

test: ## Runs every check and test
	@scripts/setup.sh test
	@. scripts/env.sh; cargo xtask verify

demo: ## Moves a data set between two sites on this machine, verified by b3sum
	@scripts/setup.sh demo
	@. scripts/env.sh; cargo build --release --locked --package penstock
	@scripts/demo.sh

fix: ## Formats, and applies what clippy suggests
	@scripts/setup.sh build
	@. scripts/env.sh; cargo xtask fix

clean: ## Removes what was built
	@. scripts/env.sh; cargo clean
