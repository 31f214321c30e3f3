<?php

// Receives an upload, and answers with its length.
echo strlen(file_get_contents('php://input'));
