CREATE TABLE products (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, price INTEGER NOT NULL);
INSERT INTO products SELECT seq, CONCAT('Wombat No. ', seq), seq * 7 FROM seq_1_to_1000;
