//go:build race

package callweir

const raced = true
