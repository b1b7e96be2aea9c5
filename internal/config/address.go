package config

import (
	"fmt"
	"net"
	"strconv"
)

func address(raw string) error {
	_, port, err := net.SplitHostPort(raw)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT, such as %s", raw, onLoopback(":"+raw))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is not a port: a number up to 65535 is", port)
	} else if n == 0 && port != "0" {
		return fmt.Errorf("%q is not a port", port)
	}
	return nil
}

// Loopback tells whether a HOST:PORT can be reached from this machine only.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(host)
}

func loopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// everywhere tells whether a host stands for all addresses of this machine.
func everywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// reach says who reaches a HOST:PORT that is not Loopback.
func reach(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil && everywhere(host) {
		return address + " stands for every address of this machine, so that other machines can reach it"
	}
	return address + " can be reached from other machines"
}

// onLoopback is the address that this machine alone reaches, with the same port.
func onLoopback(address string) string {
	host, _, _ := net.SplitHostPort(DefaultListen)
	_, port, err := net.SplitHostPort(address)
	if _, number := strconv.ParseUint(port, 10, 16); err != nil || number != nil {
		return DefaultListen
	}
	return net.JoinHostPort(host, port)
}

// same tells whether two listeners can't have both addresses. It resolves no names.
func same(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB) || Loopback(a) && Loopback(b) && (hostA == "localhost" || hostB == "localhost")
}
