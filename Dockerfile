# The host alone, static, as a user without rights: no distribution, no shell. It runs plugins
# and objects; servers that are commands need an image with their interpreter in it, as
# docs/packaging.md shows.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# With .git: the build records its version from there.
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/kalpa ./cmd/kalpa \
 && mkdir /out/data \
 && echo 'kalpa:x:65532:65532:kalpa:/data:/sbin/nologin' >/out/passwd \
 && cp "$(go env GOROOT)/lib/time/zoneinfo.zip" /out/

FROM scratch
COPY --from=build /out/passwd /etc/passwd
# For issuers of tokens and collectors that are reached by TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
# For schedules in a time zone.
COPY --from=build /out/zoneinfo.zip /zoneinfo.zip
ENV ZONEINFO=/zoneinfo.zip
COPY --from=build /out/kalpa /usr/bin/kalpa
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
VOLUME /data
EXPOSE 8080
# SIGTERM ends the host in order: no shell in between.
ENTRYPOINT ["/usr/bin/kalpa"]
# --insecure: inside a container every address is one that others may reach. Who does is
# decided by who publishes the port; docs/security.md has what to set before that is everybody.
CMD ["serve", "--listen", "0.0.0.0:8080", "--insecure", "--data", "/data"]
