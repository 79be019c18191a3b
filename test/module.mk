# test
