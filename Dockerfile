# The host alone, static, as a user without rights. It runs plugins and objects; servers that
# are commands need an image with their interpreter in it, as docs/packaging.md shows.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# With .git: the build records its version from there.
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/kalpa ./cmd/kalpa && mkdir /out/data

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/kalpa /usr/bin/kalpa
COPY --from=build --chown=nonroot:nonroot /out/data /data
VOLUME /data
EXPOSE 8080
# SIGTERM ends the host in order: no shell in between.
ENTRYPOINT ["/usr/bin/kalpa"]
# --insecure: inside a container every address is one that others may reach. Who does is
# decided by who publishes the port; docs/security.md has what to set before that is everybody.
CMD ["serve", "--listen", "0.0.0.0:8080", "--insecure", "--data", "/data"]
