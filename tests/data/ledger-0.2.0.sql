PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE ledger_documents (
	run_id INTEGER NOT NULL, 
	"key" BLOB NOT NULL, 
	external_id TEXT NOT NULL, 
	scan INTEGER NOT NULL, 
	payload TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	sha256 BLOB NOT NULL, 
	fingerprint TEXT NOT NULL, 
	state TEXT NOT NULL, 
	action TEXT, 
	document_id TEXT, 
	sent_bytes BIGINT DEFAULT '0' NOT NULL, 
	parts_not_read INTEGER DEFAULT '0' NOT NULL, 
	pages_waiting INTEGER DEFAULT '0' NOT NULL, 
	contained TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (run_id, "key")
);
INSERT INTO "ledger_documents" VALUES(1,X'88321B59B7850AFC262B4A00FA394B7C','sent',2,'{"path":"/library/sent","name":"sent","file_name":"sent","access":[["ada@x.org"],["crew"],false],"metadata":{"k":"v"},"collection":null,"external_url":null,"place":"sent","stored":null}',10,X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F','f1','uploaded','create','id-sent',10,0,0,'');
INSERT INTO "ledger_documents" VALUES(1,X'A380AB9CE727779970DA15120E3DD1D0','planned',2,'{"path":"/library/planned","name":"planned","file_name":"planned","access":[["ada@x.org"],["crew"],false],"metadata":{"k":"v"},"collection":null,"external_url":null,"place":"planned","stored":null}',10,X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F','f1','planned','create',NULL,0,0,0,'');
INSERT INTO "ledger_documents" VALUES(1,X'475E865A03286EFA770EAB95D8AA5CDA','empty',2,'{"path":"/library/empty","name":"empty","file_name":"empty","access":[["ada@x.org"],["crew"],false],"metadata":{"k":"v"},"collection":null,"external_url":null,"place":"empty","stored":null}',10,X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F','f1','failed',NULL,NULL,0,0,0,'');
CREATE TABLE ledger_files (
	source_id INTEGER NOT NULL, 
	"key" BLOB NOT NULL, 
	size BIGINT NOT NULL, 
	marker TEXT NOT NULL, 
	sha256 BLOB NOT NULL, 
	taken_at_ns BIGINT NOT NULL, 
	PRIMARY KEY (source_id, "key")
);
INSERT INTO "ledger_files" VALUES(1,X'BED2E6424344DB50311DA6A778636C48',10,'1:2:3',X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F',4611686018427387904);
CREATE TABLE ledger_format (
	format INTEGER NOT NULL, 
	PRIMARY KEY (format)
);
CREATE TABLE ledger_quarantine (
	source_id INTEGER NOT NULL, 
	part SMALLINT NOT NULL, 
	"key" BLOB NOT NULL, 
	scan INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	place TEXT NOT NULL, 
	external_id TEXT, 
	code TEXT NOT NULL, 
	message TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	for_good BOOLEAN NOT NULL, 
	ignored BOOLEAN NOT NULL, 
	since DOUBLE NOT NULL, 
	PRIMARY KEY (source_id, part, "key")
);
INSERT INTO "ledger_quarantine" VALUES(1,1,X'475E865A03286EFA770EAB95D8AA5CDA',2,0,'empty','empty','file_empty','Empty.','f1',1,0,1.79538687768218040465e+09);
INSERT INTO "ledger_quarantine" VALUES(1,0,X'59408BFFEE9B108AAC77E5BEB35125DA',2,1,'line 9',NULL,'row_invalid','Bad row.','b042e81b5fbfb264d1be6e3818ded82ed78e4acee6492e890fd5eb8b9f09a096',0,0,1.79538687779771971705e+09);
CREATE TABLE ledger_runs (
	run_id INTEGER NOT NULL, 
	source_id INTEGER NOT NULL, 
	run_key TEXT NOT NULL, 
	claim TEXT NOT NULL, 
	scan INTEGER NOT NULL, 
	started_at DOUBLE NOT NULL, 
	finished_at DOUBLE, 
	host TEXT NOT NULL, 
	process INTEGER NOT NULL, 
	lock_pid INTEGER, 
	held_back TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (run_id), 
	UNIQUE (run_key), 
	UNIQUE (claim)
);
INSERT INTO "ledger_runs" VALUES(1,1,'62cff2344b2e4e48b578b3b57344c9fb','a2ffc4ea58014dc88a33a6b07291c709',2,1.79538687773765397075e+09,NULL,'machine',24479,NULL,'');
CREATE TABLE ledger_sent (
	source_id INTEGER NOT NULL, 
	"key" BLOB NOT NULL, 
	external_id TEXT NOT NULL, 
	document_id TEXT, 
	fingerprint TEXT, 
	intended TEXT, 
	PRIMARY KEY (source_id, "key")
);
INSERT INTO "ledger_sent" VALUES(1,X'94600D665A98564700CF34E22492D747','gone','id-gone','f1',NULL);
INSERT INTO "ledger_sent" VALUES(1,X'88321B59B7850AFC262B4A00FA394B7C','sent','id-sent','f1',NULL);
CREATE TABLE ledger_sources (
	source_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	target TEXT NOT NULL, 
	source TEXT NOT NULL, 
	options TEXT NOT NULL, 
	scans INTEGER NOT NULL, 
	PRIMARY KEY (source_id), 
	UNIQUE (name)
);
INSERT INTO "ledger_sources" VALUES(1,'884c6308e4538ced31fc07d0','upload','t','s','{"source": "s", "options": {}}',2);
CREATE INDEX ix_ledger_runs_source_id ON ledger_runs (source_id);
CREATE INDEX ledger_documents_state ON ledger_documents (run_id, state, "key");
COMMIT;
