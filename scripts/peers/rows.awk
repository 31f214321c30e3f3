# What rows.php must answer.

BEGIN {
    printf "["
    for (id = 1; id <= 200; id++) {
        printf "%s{\"id\":%d,\"code\":\"C-%05d\",\"name\":\"Customer %d\",", id == 1 ? "" : ",", id, id, id
        printf "\"email\":\"customer.%d@example.com\",\"active\":%s,", id, id % 3 ? "true" : "false"
        printf "\"balance\":%d,\"address\":{\"street\":\"%d High Street\",\"zip\":\"%05d\"},", id * 100 + 7, id, id * 37
        printf "\"tags\":[\"tag-%d\",\"tag-%d\"]}", id % 7, id % 11
    }
    printf "]"
}
