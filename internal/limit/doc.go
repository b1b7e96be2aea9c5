// Package limit bounds what callers may ask of a host: requests in a time ([Rates]) and
// connections at once ([Listener]). Neither grows with the number of callers.
package limit
